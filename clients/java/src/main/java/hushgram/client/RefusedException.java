package hushgram.client;

/** A manifest, value or group that must not be used. Nothing was drawn, spent or stored. */
public class RefusedException extends IllegalArgumentException {
    private static final long serialVersionUID = 1L;

    public RefusedException(String why) {
        super(why);
    }
}
