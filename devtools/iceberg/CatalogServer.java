import jakarta.servlet.DispatcherType;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.File;
import java.net.InetSocketAddress;
import java.net.URI;
import java.util.EnumSet;
import java.util.Map;
import org.apache.iceberg.Files;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.FilterHolder;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/** Iceberg's reference REST catalogue on loopback, over a SQLite file and local files; PORT DIRECTORY, and TOKEN in the environment. */
public class CatalogServer {
  /** Iceberg's own way to local files goes through Hadoop. */
  record LocalFiles() implements FileIO {
    private static File file(String path) {
      return new File(path.startsWith("file:") ? URI.create(path).getPath() : path);
    }

    public InputFile newInputFile(String path) {
      return Files.localInput(file(path));
    }

    public OutputFile newOutputFile(String path) {
      return Files.localOutput(file(path));
    }

    public void deleteFile(String path) {
      file(path).delete();
    }
  }

  public static void main(String[] arguments) throws Exception {
    int port = Integer.parseInt(arguments[0]);
    String directory = arguments[1], expected = "Bearer " + System.getenv("TOKEN");
    JdbcCatalog catalog = new JdbcCatalog(properties -> new LocalFiles(), null, true);
    catalog.initialize(
        "tables",
        Map.of(
            "uri", "jdbc:sqlite:" + directory + "/catalog.db",
            "warehouse", directory + "/warehouse",
            "clients", "1", // connections: of two that write at once, SQLite refuses one
            "jdbc.schema-version", "V1"));
    ServletContextHandler context = new ServletContextHandler();
    context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
    FilterHolder guard =
        new FilterHolder(
            (request, response, chain) -> {
              if (expected.equals(((HttpServletRequest) request).getHeader("Authorization"))) {
                chain.doFilter(request, response);
                return;
              }
              HttpServletResponse refused = (HttpServletResponse) response;
              refused.setStatus(401);
              refused.setContentType("application/json");
              refused.getWriter().write("{\"error\": {\"message\": \"Not authorized\", \"type\": \"NotAuthorizedException\", \"code\": 401}}");
            });
    context.addFilter(guard, "/*", EnumSet.of(DispatcherType.REQUEST));
    Server server = new Server(new InetSocketAddress("127.0.0.1", port));
    server.setHandler(context);
    server.start();
    server.join();
  }
}
