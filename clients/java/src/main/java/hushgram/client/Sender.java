package hushgram.client;

import java.io.IOException;

/** How a message reaches the server. {@link HttpSender} is one; an app may bring its own. */
public interface Sender {
    /**
     * Posts a message, as it is, with the type `application/vnd.hushgram.report`, and follows no redirect. An IOException
     * means that there was no answer.
     */
    Answer send(byte[] message) throws IOException;

    /** What the server said. */
    final class Answer {
        final int status;
        final String retryAfter;

        /** The status, and the header Retry-After or null. */
        public Answer(int status, String retryAfter) {
            this.status = status;
            this.retryAfter = retryAfter;
        }

        boolean kept() {
            return status >= 200 && status < 300;
        }

        boolean neverTaken() {
            return status == 400 || status == 413 || status == 415 || status == 422;
        }
    }
}
