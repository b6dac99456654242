package hushgram.client;

/** What an account may spend in each period, in billionths of ε. */
final class Budget {
    /** The name of the collection, or empty for all collections of the device together. */
    final String account;

    final long amount;
    final long everyMs;

    Budget(String account, long amount, long everyMs) {
        this.account = account;
        this.amount = amount;
        this.everyMs = everyMs;
    }
}
