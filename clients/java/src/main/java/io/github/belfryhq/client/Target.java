package io.github.belfryhq.client;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;

/** The receiver of a task. Absent fields are null. {@code timeout} is the time of one attempt. */
public record Target(String url, String method, Auth auth, Map<String, String> headers, Duration timeout) {
    /** Returns a receiver of POST requests. */
    public static Target of(String url) {
        return new Target(url, null, null, null, null);
    }

    /** Sets POST, PUT, PATCH, DELETE or GET. */
    public Target withMethod(String method) {
        return new Target(url, method, auth, headers, timeout);
    }

    /** Sets the proof of the sender that the receiver of a webhook gets. */
    public Target withAuth(Auth auth) {
        return new Target(url, method, auth, headers, timeout);
    }

    public Target withHeader(String name, String value) {
        Map<String, String> changed = new LinkedHashMap<>(headers == null ? Map.of() : headers);
        changed.put(name, value);
        return new Target(url, method, auth, changed, timeout);
    }

    public Target withTimeout(Duration timeout) {
        return new Target(url, method, auth, headers, timeout);
    }
}
