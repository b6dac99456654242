package hushgram.client;

import static hushgram.client.Checks.need;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Answers `hushgram conform`: one JSON object a line with one JSON object a line, until the input ends. */
public final class Conform {
    private static final long MOST_REPORTS = 1 << 22;

    private Manifest manifest;

    private Conform() {}

    public static void main(String[] arguments) throws IOException {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, "US-ASCII");
        Conform client = new Conform();
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Map<String, Object> answer;
            try {
                answer = client.answer(Checks.object(Json.read(line), "request"));
            } catch (RefusedException refused) {
                answer = Collections.singletonMap("refused", refused.getMessage());
            }
            answers.print(Json.write(answer) + "\n");
            answers.flush();
        }
    }

    private Map<String, Object> answer(Map<?, ?> request) throws IOException {
        if (request.containsKey("manifest")) {
            manifest = null;
            manifest = Manifest.of(request.get("manifest"), Double.POSITIVE_INFINITY);
        }
        need(manifest != null, "no manifest");
        if (request.containsKey("times")) {
            return Collections.singletonMap("granted", grant(request));
        }
        String group = request.get("group") == null ? null : Checks.string(request.get("group"), "group");
        double value = Checks.real(request.get("value"), "value");
        if (request.containsKey("upload")) {
            return Collections.singletonMap("upload", upload(value, group));
        }
        manifest.checkGroup(group);
        long position = manifest.position(value);
        boolean repeated = request.containsKey("repeat");
        long[] cells = new long[repeated ? (int) Checks.count(request, "repeat", 0, MOST_REPORTS) : 1];
        Script script = request.containsKey("draws") ? new Script(Checks.list(request.get("draws"), "draws")) : null;
        for (int i = 0; i < cells.length; i++) {
            cells[i] = manifest.cell(position, script == null ? Draws.SECURE : script);
        }
        need(script == null || script.ended(), "draws are left over");
        Map<String, Object> answer = new LinkedHashMap<>();
        if (repeated) {
            List<Long> listed = new ArrayList<>();
            for (long cell : cells) {
                listed.add(cell);
            }
            answer.put("cells", listed);
        } else {
            answer.put("position", position);
            answer.put("cell", cells[0]);
        }
        if (request.containsKey("id")) {
            long time = Checks.count(request, "time", -Checks.EXACT);
            byte[] id = Checks.bytes(request.get("id"), 16, "id");
            if (!repeated) {
                answer.put("report", Checks.hexadecimal(Messages.report(manifest, cells[0], group, time, id)));
            }
            answer.put("batch", Checks.hexadecimal(Messages.batch(manifest, cells, group, time, id)));
        }
        return answer;
    }

    /** As a device sends it, after a ledger that begins empty. */
    private String upload(double value, String group) throws IOException {
        new Ledger().spend(manifest, 1, System.currentTimeMillis(), Draws.SECURE);
        return Checks.hexadecimal(Device.withoutStore(manifest).report(value, group));
    }

    /** Whether a ledger that begins empty, in the given slot, grants a report at each of the times. */
    private List<Boolean> grant(Map<?, ?> request) {
        long slot = Checks.count(request, "slot", 0);
        Ledger ledger = new Ledger();
        List<Boolean> granted = new ArrayList<>();
        for (Object time : Checks.list(request.get("times"), "times")) {
            need(time instanceof Long, "times: expected whole numbers");
            try {
                ledger.spend(manifest, 1, (Long) time, limit -> slot);
                granted.add(true);
            } catch (OverBudgetException refused) {
                granted.add(false);
            }
        }
        return granted;
    }

    /** Draws that are told beforehand: [[limit, answer], …]. */
    private static final class Script implements Draws {
        private final List<?> draws;
        private int next;

        Script(List<?> draws) {
            this.draws = draws;
        }

        @Override
        public long below(long limit) {
            need(!ended(), "the script of draws has ended");
            List<?> draw = Checks.list(draws.get(next++), "draws");
            need(draw.size() == 2, "draws: expected a limit and an answer");
            need(Long.toString(limit).equals(draw.get(0)), "draw below " + limit + ": the script has another limit");
            long answer = "0".equals(draw.get(1)) ? 0 : Checks.natural(draw.get(1), "draws");
            need(answer < limit, "draw below " + limit + ": the script has a larger answer");
            return answer;
        }

        boolean ended() {
            return next == draws.size();
        }
    }
}
