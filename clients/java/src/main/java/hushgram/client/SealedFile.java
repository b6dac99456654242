package hushgram.client;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.zip.CRC32;

/** Files that are there in whole or not at all, and end with a checksum: what was not written so is noticed. */
final class SealedFile {
    private static final int SEAL = 4;
    static final long LARGEST = 1 << 24;

    private SealedFile() {}

    /** When this returns, the content is on the disk. When it throws, the file is the old one or the new one. */
    static void write(Path file, byte[] content) throws IOException {
        Path fresh = file.resolveSibling(file.getFileName() + ".new");
        try {
            ByteBuffer sealed = ByteBuffer.allocate(content.length + SEAL).put(content).putInt(seal(content));
            sealed.flip();
            try (FileChannel channel =
                    FileChannel.open(
                            fresh,
                            StandardOpenOption.CREATE,
                            StandardOpenOption.WRITE,
                            StandardOpenOption.TRUNCATE_EXISTING)) {
                while (sealed.hasRemaining()) {
                    channel.write(sealed);
                }
                channel.force(true);
            }
            Files.move(fresh, file, StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException error) {
            deleteQuietly(fresh);
            throw error;
        }
        forceFolder(file.getParent());
    }

    /** Throws NoSuchFileException if there is none, and DamagedException if it is not what was written. */
    static byte[] read(Path file) throws IOException {
        if (Files.size(file) > LARGEST) {
            throw new DamagedException(file);
        }
        byte[] sealed = Files.readAllBytes(file);
        if (sealed.length < SEAL) {
            throw new DamagedException(file);
        }
        byte[] content = Arrays.copyOf(sealed, sealed.length - SEAL);
        if (ByteBuffer.wrap(sealed, content.length, SEAL).getInt() != seal(content)) {
            throw new DamagedException(file);
        }
        return content;
    }

    /** A name in a folder is safe when the folder is. Windows opens no folders; its file systems keep a journal. */
    static void forceFolder(Path folder) throws IOException {
        if (File.separatorChar == '/') {
            try (FileChannel channel = FileChannel.open(folder, StandardOpenOption.READ)) {
                channel.force(true);
            }
        }
    }

    private static int seal(byte[] content) {
        CRC32 checksum = new CRC32();
        checksum.update(content, 0, content.length);
        return (int) checksum.getValue();
    }

    private static void deleteQuietly(Path file) {
        try {
            Files.deleteIfExists(file);
        } catch (IOException error) {
            // It is written over the next time; what failed first is what matters.
        }
    }

    static final class DamagedException extends IOException {
        private static final long serialVersionUID = 1L;

        DamagedException(Path file) {
            super(file + " is not what was written there");
        }
    }
}
