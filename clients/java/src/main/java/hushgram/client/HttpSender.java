package hushgram.client;

import java.io.IOException;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.MalformedURLException;
import java.net.URL;

/** Posts with HttpURLConnection, which is there on every Java and every Android. */
public final class HttpSender implements Sender {
    private static final String TYPE = "application/vnd.hushgram.report";

    private final URL url;
    private final int timeoutMs;

    /** To `https://…/v1/reports`. */
    public HttpSender(String url) {
        this(url, 30_000);
    }

    public HttpSender(String url, int timeoutMs) {
        try {
            this.url = new URL(url);
        } catch (MalformedURLException error) {
            throw new IllegalArgumentException("no URL: " + url, error);
        }
        String protocol = this.url.getProtocol();
        if (!protocol.equals("https") && !protocol.equals("http")) {
            throw new IllegalArgumentException("neither https nor http: " + url);
        }
        this.timeoutMs = timeoutMs;
    }

    @Override
    public Answer send(byte[] message) throws IOException {
        HttpURLConnection connection = (HttpURLConnection) url.openConnection();
        try {
            connection.setRequestMethod("POST");
            connection.setInstanceFollowRedirects(false);
            connection.setUseCaches(false);
            connection.setConnectTimeout(timeoutMs);
            connection.setReadTimeout(timeoutMs);
            connection.setRequestProperty("Content-Type", TYPE);
            connection.setRequestProperty("User-Agent", "hushgram"); // the default names the version of Java
            connection.setDoOutput(true);
            connection.setFixedLengthStreamingMode(message.length);
            try (OutputStream body = connection.getOutputStream()) {
                body.write(message);
            }
            int status = connection.getResponseCode();
            return new Answer(status, connection.getHeaderField("Retry-After"));
        } finally {
            connection.disconnect();
        }
    }
}
