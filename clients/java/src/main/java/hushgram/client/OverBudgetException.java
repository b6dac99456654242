package hushgram.client;

/** No report now: the budget of the period is spent, it is not this device's slot, or the clock was set back. */
public final class OverBudgetException extends RefusedException {
    private static final long serialVersionUID = 1L;

    public OverBudgetException(String why) {
        super(why);
    }
}
