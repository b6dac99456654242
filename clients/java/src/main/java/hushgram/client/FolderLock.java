package hushgram.client;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.locks.ReentrantLock;

/**
 * One holder at a time, among threads and among processes. A lock of a file is the process's, so threads need their own; and
 * it ends when the process closes the file anywhere, so the file is opened by the holder alone. It ends with the process.
 */
final class FolderLock {
    private static final ConcurrentMap<Path, ReentrantLock> THREADS = new ConcurrentHashMap<>();

    private final Path file;
    private final ReentrantLock threads;

    FolderLock(Path folder) throws IOException {
        Path real = folder.toRealPath();
        file = real.resolve("lock");
        threads = THREADS.computeIfAbsent(real, key -> new ReentrantLock());
    }

    interface Action<T> {
        T run() throws IOException;
    }

    /** A holder may hold it again. */
    <T> T hold(Action<T> action) throws IOException {
        threads.lock();
        try {
            if (threads.getHoldCount() > 1) {
                return action.run();
            }
            try (FileChannel channel = FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
                channel.lock();
                return action.run();
            } catch (OverlappingFileLockException error) {
                throw new IOException(file + " is locked by another class loader of this process", error);
            }
        } finally {
            threads.unlock();
        }
    }
}
