/**
 * Belfry in a Spring Boot application: a client from the properties {@code belfry.*}, methods that consume queues and
 * run on schedules, verified deliveries in controllers, health and metrics.
 *
 * <p>Each method has a queue and a consumer of its own. Why not one queue for all schedules, with the methods told
 * apart by the schedule's id? Two applications of one namespace would take each other's occurrences, and would have no
 * method for them.
 *
 * <p>Metrics are observations of Micrometer, which Spring itself depends on. So no class of the starter is there only
 * if a registry is, and a tracer sees the same spans.
 */
package io.github.belfryhq.spring;
