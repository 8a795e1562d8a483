package io.github.belfryhq.spring;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;
import org.springframework.util.unit.DataSize;

/**
 * The settings of the client, its workers and receivers.
 *
 * @param addresses base URLs of one or more nodes of one cluster. Default: BELFRY_ADDR, else http://127.0.0.1:8400
 * @param key API key or token. Default: the content of key-file
 * @param keyFile file with the key, which is read for each request, so that a new key needs no restart
 * @param namespace namespace of the calls about tasks, schedules and queues. Default: the key's own
 * @param timeout time of a call with all its repeats. Default: 30s
 * @param attemptTimeout time of one request. Default: 5s
 * @param maxAttempts requests of one call. Default: as many as fit into the timeout
 * @param retryBudget repeats that all calls together may make beyond a fifth of the calls. Default: 500
 * @param worker settings of the methods with BelfryListener and BelfryScheduled
 * @param receiver settings of the deliveries in controllers
 */
@ConfigurationProperties("belfry")
public record BelfryProperties(
        List<String> addresses,
        String key,
        Path keyFile,
        String namespace,
        Duration timeout,
        Duration attemptTimeout,
        Integer maxAttempts,
        Integer retryBudget,
        @DefaultValue Worker worker,
        @DefaultValue Receiver receiver) {

    /** Returns the name alone: the components have secrets. */
    @Override
    public String toString() {
        return "BelfryProperties";
    }

    /**
     * The settings of the methods with BelfryListener and BelfryScheduled.
     *
     * @param enabled whether the methods consume and schedules are made. False suits instances that only serve requests
     * @param concurrency tasks that one method handles at once
     * @param lease length of a lease, which is extended while the method runs
     * @param grace time that methods get to end when the application stops
     */
    public record Worker(
            @DefaultValue("true") boolean enabled,
            @DefaultValue("64") int concurrency,
            @DefaultValue("10s") Duration lease,
            @DefaultValue("25s") Duration grace) {}

    /**
     * The settings of the deliveries in controllers.
     *
     * @param secrets secrets of the queues, each whsec_ and base64: two of one queue during a change
     * @param tolerance largest difference of the sender's clock
     * @param maxBody largest body
     */
    public record Receiver(
            @DefaultValue List<String> secrets,
            @DefaultValue("5m") Duration tolerance,
            @DefaultValue("16MB") DataSize maxBody) {

        /** Returns the name alone: the components have secrets. */
        @Override
        public String toString() {
            return "BelfryProperties.Receiver";
        }
    }
}
