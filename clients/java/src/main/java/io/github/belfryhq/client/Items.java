package io.github.belfryhq.client;

import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.function.Function;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/** The items of all pages of a list. Each iteration reads the list anew, page by page. */
public final class Items<T> implements Iterable<T> {
    private final Function<String, Page<T>> read;

    /** Reads a page behind a cursor, which is null for the first one. */
    Items(Function<String, Page<T>> read) {
        this.read = read;
    }

    record Page<T>(List<T> items, String nextCursor) {}

    @Override
    public Iterator<T> iterator() {
        return new Iterator<>() {
            private Page<T> page = read.apply(null);
            private Iterator<T> items = page.items().iterator();

            @Override
            public boolean hasNext() {
                while (!items.hasNext() && page.nextCursor() != null) {
                    page = read.apply(page.nextCursor());
                    items = page.items().iterator();
                }
                return items.hasNext();
            }

            @Override
            public T next() {
                if (!hasNext()) {
                    throw new NoSuchElementException();
                }
                return items.next();
            }
        };
    }

    public Stream<T> stream() {
        return StreamSupport.stream(spliterator(), false);
    }
}
