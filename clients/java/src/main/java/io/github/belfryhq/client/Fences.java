package io.github.belfryhq.client;

import java.math.BigInteger;
import java.util.LinkedHashMap;
import java.util.Map;

/** Remembers the highest fence seen for each task. Receivers of several processes share one, say in their database. */
public interface Fences {
    /** Remembers a fence, and returns whether no higher one was seen before. An equal one is the same attempt again. */
    boolean raise(String task, BigInteger fence);

    /** Returns fences in the memory of one process, which forget the tasks that were seen longest ago. */
    static Fences inMemory(int capacity) {
        Map<String, BigInteger> fences = new LinkedHashMap<>(16, 0.75f, true) {
            @Override
            protected boolean removeEldestEntry(Map.Entry<String, BigInteger> eldest) {
                return size() > capacity;
            }
        };
        return (task, fence) -> {
            synchronized (fences) {
                return fences.merge(task, fence, BigInteger::max).equals(fence);
            }
        };
    }
}
