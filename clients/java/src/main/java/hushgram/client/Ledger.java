package hushgram.client;

import static hushgram.client.Checks.need;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** What a device has spent, and the slots it has drawn; {@link Store} keeps it across restarts. */
final class Ledger {
    /** Start and end of the last period of an account, and what was spent in it. */
    private final Map<String, List<Long>> accounts = new TreeMap<>();

    /** The number of slots of a collection, and the one that was drawn. */
    private final Map<String, List<Long>> slots = new TreeMap<>();

    /** Takes the cost of the reports from all budgets, or throws and takes nothing; a slot that was drawn stays. */
    void spend(Manifest manifest, int reports, long now, Draws draws) {
        if (manifest.budgets.isEmpty()) {
            return;
        }
        need(0 <= now && now <= Checks.EXACT, "a clock before 1970, or far beyond");
        if (manifest.slots > 1) {
            long every = manifest.budgets.get(0).everyMs;
            if (now % every * manifest.slots / every != slot(manifest, draws)) {
                throw new OverBudgetException("not now: this device reports in another slot of the period");
            }
        }
        Map<String, List<Long>> changed = new TreeMap<>();
        for (Budget budget : manifest.budgets) {
            List<Long> period = enterPeriod(accounts.get(budget.account), now, budget.everyMs);
            long left = budget.amount - period.get(2);
            if (left < 0 || reports > left / manifest.cost) {
                throw new OverBudgetException("not now: the budget of this period is spent");
            }
            changed.put(budget.account, Arrays.asList(period.get(0), period.get(1), period.get(2) + reports * manifest.cost));
        }
        accounts.putAll(changed);
    }

    private static List<Long> enterPeriod(List<Long> last, long now, long every) {
        long start = now / every * every;
        if (last == null) {
            return Arrays.asList(start, start + every, 0L);
        }
        if (now < last.get(0)) {
            throw new OverBudgetException("not now: the clock was set back to before the last period");
        }
        return now < last.get(1) ? last : Arrays.asList(Math.max(start, last.get(1)), start + every, 0L);
    }

    private long slot(Manifest manifest, Draws draws) {
        List<Long> kept = slots.get(manifest.collection());
        if (kept == null || kept.get(0) != manifest.slots) {
            kept = Arrays.asList(manifest.slots, draws.below(manifest.slots));
            slots.put(manifest.collection(), kept);
        }
        return kept.get(1);
    }

    String write() {
        Map<String, Object> ledger = new LinkedHashMap<>();
        ledger.put("accounts", accounts);
        ledger.put("slots", slots);
        return Json.write(ledger);
    }

    static Ledger read(byte[] written) {
        Map<?, ?> source = Checks.object(Json.read(written), "ledger");
        Checks.only(source, "accounts slots");
        Ledger ledger = new Ledger();
        readInto(ledger.accounts, source.get("accounts"), 3);
        readInto(ledger.slots, source.get("slots"), 2);
        return ledger;
    }

    private static void readInto(Map<String, List<Long>> target, Object source, int numbers) {
        for (Map.Entry<?, ?> entry : Checks.object(source, "ledger").entrySet()) {
            Long[] read = new Long[numbers];
            List<?> list = Checks.list(entry.getValue(), "ledger");
            need(list.size() == numbers, "ledger: another number of entries");
            for (int i = 0; i < numbers; i++) {
                need(list.get(i) instanceof Long && (Long) list.get(i) >= 0, "ledger: expected a whole number");
                read[i] = (Long) list.get(i);
            }
            target.put((String) entry.getKey(), Arrays.asList(read));
        }
    }
}
