package hushgram.client;

import java.io.ByteArrayOutputStream;

/** Reports as messages: Avro's single-object encoding. */
final class Messages {
    private Messages() {}

    static byte[] report(Manifest manifest, long cell, String group, long milliseconds, byte[] id) {
        ByteArrayOutputStream encoded = new ByteArrayOutputStream();
        writeLong(cell, encoded);
        return message(Manifest.REPORT, manifest, encoded.toByteArray(), group, milliseconds, id);
    }

    /** Reports of one group and time. */
    static byte[] batch(Manifest manifest, long[] cells, String group, long milliseconds, byte[] id) {
        int width = 1;
        while (width < 8 && manifest.law.cells > 1L << 8 * width) {
            width *= 2;
        }
        ByteArrayOutputStream encoded = new ByteArrayOutputStream();
        writeLong((long) cells.length * width, encoded);
        for (long cell : cells) {
            for (int shift = 0; shift < 8 * width; shift += 8) {
                encoded.write((int) (cell >>> shift));
            }
        }
        return message(Manifest.REPORT_BATCH, manifest, encoded.toByteArray(), group, milliseconds, id);
    }

    private static byte[] message(
            String schema, Manifest manifest, byte[] cells, String group, long milliseconds, byte[] id) {
        ByteArrayOutputStream encoded = new ByteArrayOutputStream();
        write(new byte[] {(byte) 0xC3, 1}, encoded);
        write(Checks.bytes(schema, 8, "schema"), encoded);
        writeText(manifest.collection(), encoded);
        write(manifest.revision, encoded);
        write(cells, encoded);
        writeLong(manifest.cut(milliseconds), encoded);
        encoded.write(group == null ? 0 : 2);
        if (group != null) {
            writeText(group, encoded);
        }
        encoded.write(2);
        write(id, encoded);
        return encoded.toByteArray();
    }

    private static void write(byte[] bytes, ByteArrayOutputStream out) {
        out.write(bytes, 0, bytes.length);
    }

    private static void writeText(String text, ByteArrayOutputStream out) {
        byte[] bytes = Checks.utf8(text);
        writeLong(bytes.length, out);
        write(bytes, out);
    }

    /** Avro's long: zigzag, then seven bits a byte, the lowest first. */
    private static void writeLong(long number, ByteArrayOutputStream out) {
        long rest = number << 1 ^ number >> 63;
        for (; (rest & ~127L) != 0; rest >>>= 7) {
            out.write((int) (rest & 127 | 128));
        }
        out.write((int) rest);
    }
}
