package io.github.belfryhq.client;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.net.http.HttpClient;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadFactory;

/** Threads, and two methods of Java 21 that the client uses where the runtime has them. */
final class Threads {
    private static final MethodHandle VIRTUAL = find(() -> MethodHandles.publicLookup().findStatic(
            Executors.class, "newVirtualThreadPerTaskExecutor", MethodType.methodType(ExecutorService.class)));
    private static final MethodHandle SHUTDOWN = find(() -> MethodHandles.publicLookup().findVirtual(
            HttpClient.class, "shutdownNow", MethodType.methodType(void.class)));

    private Threads() {}

    private interface Lookup {
        MethodHandle find() throws ReflectiveOperationException;
    }

    /** Returns the method, or null if the runtime is older. */
    private static MethodHandle find(Lookup lookup) {
        try {
            return lookup.find();
        } catch (ReflectiveOperationException err) {
            return null;
        }
    }

    /** Returns virtual threads, or else a pool that grows with its tasks. */
    static ExecutorService executor(String name) {
        if (VIRTUAL == null) {
            return Executors.newCachedThreadPool(daemons(name));
        }
        try {
            return (ExecutorService) VIRTUAL.invokeExact();
        } catch (Throwable err) {
            throw new IllegalStateException(err);
        }
    }

    static ScheduledExecutorService timer(String name) {
        return Executors.newSingleThreadScheduledExecutor(daemons(name));
    }

    private static ThreadFactory daemons(String name) {
        return task -> {
            Thread thread = new Thread(task, name);
            thread.setDaemon(true);
            return thread;
        };
    }

    /** Ends the connections of an HTTP client. An older runtime ends them once the client is garbage. */
    static void shutdown(HttpClient http) {
        if (SHUTDOWN != null) {
            try {
                SHUTDOWN.invokeExact(http);
            } catch (Throwable err) {
                throw new IllegalStateException(err);
            }
        }
    }
}
