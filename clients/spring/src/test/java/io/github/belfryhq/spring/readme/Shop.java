package io.github.belfryhq.spring.readme;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.springframework.stereotype.Component;

/** The application's own code, which the snippets of README.md call. */
@Component
class Shop {
    final BlockingQueue<Integer> closed = new LinkedBlockingQueue<>();
    final BlockingQueue<String> reports = new LinkedBlockingQueue<>();

    boolean isOpen() {
        return true;
    }

    void close(int order, String idempotencyKey) {
        if (idempotencyKey.isEmpty()) {
            throw new IllegalArgumentException("there is no key");
        }
        closed.add(order);
    }

    void report(String occurrence) {
        reports.add(occurrence);
    }
}
