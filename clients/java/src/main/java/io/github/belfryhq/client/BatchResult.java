package io.github.belfryhq.client;

/** The result of one operation of a batch. Absent fields are null. */
public record BatchResult(
        String id, int status, Long revision, Task.Outcome outcome, Task.State previous, Problem problem) {

    /** Returns the exception that the single call would have thrown, or null if the operation succeeded. */
    public ProblemException error() {
        return problem == null ? null : ProblemException.of(problem, "batch line " + id);
    }
}
