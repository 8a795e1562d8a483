package io.github.belfryhq.spring;

import com.fasterxml.jackson.databind.JsonMappingException;
import io.github.belfryhq.client.LeasedTask;
import io.github.belfryhq.client.Payload;
import io.github.belfryhq.client.Release;
import io.github.belfryhq.client.RetryIn;
import io.github.belfryhq.client.TaskContext;
import io.github.belfryhq.client.Worker;
import io.micrometer.observation.Observation;
import io.micrometer.observation.ObservationRegistry;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Type;
import java.util.Arrays;
import java.util.List;
import java.util.function.BiFunction;
import org.apache.commons.logging.Log;
import org.apache.commons.logging.LogFactory;
import org.springframework.core.GenericTypeResolver;
import org.springframework.core.MethodParameter;
import org.springframework.util.ReflectionUtils;

/** The method of a bean that handles the tasks of a queue. */
final class ListenerMethod implements Worker.Handler {
    private static final Log LOG = LogFactory.getLog(ListenerMethod.class);

    private final String queue;
    private final Object bean;
    private final Method method;
    private final List<BiFunction<LeasedTask, TaskContext, Object>> arguments;
    private final ObservationRegistry observations;

    /** Takes a method that the bean, which may be a proxy, has itself. */
    ListenerMethod(String queue, Object bean, Method method, ObservationRegistry observations) {
        this.queue = queue;
        this.bean = bean;
        this.method = method;
        this.observations = observations;
        if (method.getReturnType() != void.class) {
            throw new IllegalStateException(method + " must return void: its return acknowledges the task");
        }
        this.arguments = Arrays.stream(method.getParameters())
                .map(parameter -> argument(MethodParameter.forParameter(parameter)))
                .toList();
        ReflectionUtils.makeAccessible(method);
    }

    private BiFunction<LeasedTask, TaskContext, Object> argument(MethodParameter parameter) {
        Class<?> type = parameter.getParameterType();
        if (type == LeasedTask.class) {
            return (task, context) -> task;
        }
        if (type == TaskContext.class) {
            return (task, context) -> context;
        }
        if (type == byte[].class) {
            return (task, context) -> task.task().payloadBytes();
        }
        Type payload = GenericTypeResolver.resolveType(parameter.getGenericParameterType(), bean.getClass());
        return (task, context) -> payload(task.payload(), payload);
    }

    /** Returns a payload as a type. The message of a failure, which Belfry keeps, shows no value of the payload. */
    private static Object payload(Payload payload, Type type) {
        try {
            return payload == null ? null : payload.as(type);
        } catch (IllegalArgumentException err) {
            String at = err.getCause() instanceof JsonMappingException wrong ? " at " + wrong.getPathReference() : "";
            throw new IllegalArgumentException("the payload is no " + type.getTypeName() + at);
        }
    }

    @Override
    public void handle(LeasedTask task, TaskContext context) throws Exception {
        Observation observation = Observation.createNotStarted("belfry.listener", observations)
                .contextualName(queue + " process")
                .lowCardinalityKeyValue("queue", queue)
                .highCardinalityKeyValue("task", task.id())
                .start();
        String outcome = "acknowledged";
        try {
            observation.scopedChecked(() -> invoke(task, context));
        } catch (RetryIn | Release err) {
            outcome = err instanceof Release ? "released" : "retried";
            throw err;
        } catch (Exception | Error err) {
            outcome = "failed";
            LOG.warn("Task " + task.id() + " of queue " + queue + " failed at attempt " + context.attempt(), err);
            throw err;
        } finally {
            observation.lowCardinalityKeyValue("outcome", context.leaseLost() ? "lost" : outcome).stop();
        }
    }

    private void invoke(LeasedTask task, TaskContext context) throws Exception {
        Object[] values = arguments.stream().map(argument -> argument.apply(task, context)).toArray();
        try {
            method.invoke(bean, values);
        } catch (InvocationTargetException err) {
            ReflectionUtils.rethrowException(err.getTargetException());
        }
    }
}
