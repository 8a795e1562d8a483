package io.github.belfryhq.client;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.http.HttpResponse.BodySubscriber;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow.Subscription;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** The lines of an answer's body, as they arrive. One thread reads them. */
final class Lines implements BodySubscriber<Lines>, AutoCloseable {
    private static final Object END = new Object();

    private final BlockingQueue<Object> parts = new LinkedBlockingQueue<>(); // lists of buffers, then END or a Throwable
    private final CompletableFuture<Subscription> subscription = new CompletableFuture<>();
    private final ByteArrayOutputStream line = new ByteArrayOutputStream();
    private ByteBuffer buffer = ByteBuffer.allocate(0);
    private List<ByteBuffer> buffers = List.of();

    @Override
    public CompletionStage<Lines> getBody() {
        return CompletableFuture.completedFuture(this);
    }

    @Override
    public void onSubscribe(Subscription given) {
        subscription.complete(given);
        given.request(1);
    }

    @Override
    public void onNext(List<ByteBuffer> part) {
        parts.add(part);
    }

    @Override
    public void onError(Throwable err) {
        parts.add(err);
    }

    @Override
    public void onComplete() {
        parts.add(END);
    }

    /**
     * Returns the next line that is not empty, or null at the end.
     *
     * @param silence nanoseconds without a part of the body after which a TimeoutException is thrown
     * @throws IOException if the body breaks off
     */
    String next(long silence) throws IOException, InterruptedException, TimeoutException {
        while (await(silence)) {
            byte one = buffer.get();
            if (one != '\n') {
                line.write(one);
            } else if (line.size() > 0) {
                String text = line.toString(StandardCharsets.UTF_8);
                line.reset();
                return text;
            }
        }
        if (line.size() > 0) {
            throw new IOException("the answer broke off within a line");
        }
        return null;
    }

    /** Returns all that is left, as {@link #next} waits for it. */
    String rest(long silence) throws IOException, InterruptedException, TimeoutException {
        byte[] part = new byte[1 << 10];
        while (await(silence)) {
            int size = Math.min(buffer.remaining(), part.length);
            buffer.get(part, 0, size);
            line.write(part, 0, size);
        }
        return line.toString(StandardCharsets.UTF_8);
    }

    /** Waits for a byte in the buffer, and returns false at the end. */
    @SuppressWarnings("unchecked")
    private boolean await(long silence) throws IOException, InterruptedException, TimeoutException {
        while (!buffer.hasRemaining()) {
            if (!buffers.isEmpty()) {
                buffer = buffers.get(0);
                buffers = buffers.subList(1, buffers.size());
                continue;
            }
            Object part = parts.poll(silence, TimeUnit.NANOSECONDS);
            if (part == null) {
                throw new TimeoutException();
            }
            if (part instanceof List<?> some) {
                buffers = (List<ByteBuffer>) some;
                subscription.join().request(1);
                continue;
            }
            parts.add(part); // a later call finds the end again
            if (part instanceof Throwable err) {
                throw new IOException(err);
            }
            return false;
        }
        return true;
    }

    /** Ends the answer, and the connection if the answer is not over. */
    @Override
    public void close() {
        subscription.thenAccept(Subscription::cancel);
    }
}
