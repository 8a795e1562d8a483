package io.github.belfryhq.client.testing;

import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ExtensionContext.Store.CloseableResource;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * Gives a {@link BelfryDev} to the parameters of JUnit 5 tests: one to each test method, or one to all of a class if its
 * constructor with {@code PER_CLASS} or a {@code @BeforeAll} method has such a parameter. It ends with the method or class.
 */
public final class BelfryExtension implements ParameterResolver {
    private static final Namespace NAMESPACE = Namespace.create(BelfryExtension.class);

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == BelfryDev.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return context.getStore(NAMESPACE)
                .getOrComputeIfAbsent(BelfryDev.class, key -> new Started(BelfryDev.start()), Started.class)
                .node();
    }

    /** JUnit before 5.13 closes a CloseableResource alone. Later versions deprecate it, and close an AutoCloseable. */
    @SuppressWarnings("deprecation")
    private record Started(BelfryDev node) implements CloseableResource, AutoCloseable {
        @Override
        public void close() {
            node.close();
        }
    }
}
