package io.github.belfryhq.client;

import java.util.List;

/** Operations make one call on every task that passes a filter. The cluster carries them on by itself. */
public final class Operations {
    private final Transport transport;

    Operations(Transport transport) {
        this.transport = transport;
    }

    public Operation begin(NewOperation operation, CallOption... options) {
        return transport.call(Operation.class, "POST", transport.root + "/operations", operation, options);
    }

    /** Counts the tasks that the operation would match now. */
    public Operation.Count count(NewOperation operation, CallOption... options) {
        NewOperation asked = operation.with("dry_run", true);
        return transport.call(Operation.Count.class, "POST", transport.root + "/operations", asked, options);
    }

    public Operation get(String id, CallOption... options) {
        return transport.call(Operation.class, "GET", path(id), null, options);
    }

    public List<Operation> list(CallOption... options) {
        return transport.call(Listed.class, "GET", "/v1/operations", null, options).operations();
    }

    record Listed(List<Operation> operations) {}

    /** Stops an operation where it is. */
    public Operation stop(String id, CallOption... options) {
        return transport.call(Operation.class, "DELETE", path(id), null, options);
    }

    private static String path(String id) {
        return "/v1/operations/" + Transport.segment(id, "id");
    }
}
