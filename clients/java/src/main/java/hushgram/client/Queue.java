package hushgram.client;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.regex.Pattern;

/** Messages that are yet to be sent, a file each, and until when to wait. The holder of the store's lock calls it. */
final class Queue {
    static final int LIMIT = 1000;
    static final long LONGEST_WAIT_MS = 86_400_000;

    /** A number, which orders them, and the id of the message, so that no name comes twice. */
    private static final Pattern NAME = Pattern.compile("[0-9]{19}-[0-9a-f]{32}");

    private final Path folder;
    private final Path pause;

    Queue(Path folder) {
        this.folder = folder.resolve("queue");
        this.pause = folder.resolve("pause");
    }

    static final class Message {
        final Path file;
        final long expires;
        final byte[] bytes;

        private Message(Path file, ByteBuffer content) {
            this.file = file;
            this.expires = content.getLong();
            this.bytes = new byte[content.remaining()];
            content.get(bytes);
        }
    }

    void put(byte[] message, long expires) throws IOException {
        List<String> names = names();
        long number = names.isEmpty() ? 0 : Long.parseLong(names.get(names.size() - 1).substring(0, 19)) + 1;
        String id = Checks.hexadecimal(Arrays.copyOfRange(message, message.length - 16, message.length));
        String name = String.format(Locale.ROOT, "%019d-%s", number, id);
        ByteBuffer content = ByteBuffer.allocate(8 + message.length).putLong(expires).put(message);
        if (!Files.isDirectory(folder)) {
            Files.createDirectory(folder);
            SealedFile.forceFolder(folder.getParent());
        }
        SealedFile.write(folder.resolve(name), content.array());
    }

    /** The oldest message, or null. One that is not what was written can never be sent, and is deleted. */
    Message first() throws IOException {
        for (String name : names()) {
            Path file = folder.resolve(name);
            try {
                byte[] content = SealedFile.read(file);
                if (content.length > 8) {
                    return new Message(file, ByteBuffer.wrap(content));
                }
            } catch (SealedFile.DamagedException damaged) {
                // as one that is too short
            }
            Files.deleteIfExists(file);
        }
        return null;
    }

    int size() throws IOException {
        return names().size();
    }

    private List<String> names() throws IOException {
        List<String> names = new ArrayList<>();
        try (DirectoryStream<Path> files = Files.newDirectoryStream(folder)) {
            for (Path file : files) {
                if (NAME.matcher(file.getFileName().toString()).matches()) {
                    names.add(file.getFileName().toString());
                }
            }
        } catch (NoSuchFileException none) {
            return names;
        }
        Collections.sort(names);
        return names;
    }

    void delete(Message message) throws IOException {
        Files.deleteIfExists(message.file);
        Files.deleteIfExists(pause);
    }

    /** Until then nothing is sent. A pause that ends in the far future is one from before the clock was set back. */
    boolean paused(long now) throws IOException {
        long left = readPause()[0] - now;
        return 0 < left && left <= LONGEST_WAIT_MS;
    }

    /** For as long as the server asked, or twice as long each time, up to about an hour, and not all devices at once. */
    void pause(long now, Long retryAfterMs, Draws draws) throws IOException {
        long tries = readPause()[1];
        long base = 1000L << Math.min(tries, 12);
        long wait = retryAfterMs != null ? retryAfterMs : base / 2 + draws.below(base);
        long until = now + Math.min(Math.max(wait, 1), LONGEST_WAIT_MS);
        SealedFile.write(pause, Json.write(Arrays.asList(until, tries + 1)).getBytes(StandardCharsets.US_ASCII));
    }

    /** Its end, and how often in a row sending has failed. */
    private long[] readPause() throws IOException {
        try {
            List<?> read = Checks.list(Json.read(SealedFile.read(pause)), "pause");
            return new long[] {(Long) read.get(0), (Long) read.get(1)};
        } catch (NoSuchFileException | SealedFile.DamagedException none) {
            return new long[] {0, 0};
        }
    }
}
