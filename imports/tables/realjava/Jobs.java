import com.github.kagkarlsson.scheduler.Scheduler;
import com.github.kagkarlsson.scheduler.SchedulerClient;
import com.github.kagkarlsson.scheduler.serializer.Serializer;
import com.github.kagkarlsson.scheduler.task.helper.OneTimeTask;
import com.github.kagkarlsson.scheduler.task.helper.RecurringTask;
import com.github.kagkarlsson.scheduler.task.helper.Tasks;
import com.github.kagkarlsson.scheduler.task.schedule.FixedDelay;
import com.zaxxer.hikari.HikariDataSource;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Date;
import java.util.Properties;
import java.util.TimeZone;
import javax.sql.DataSource;
import org.quartz.CronScheduleBuilder;
import org.quartz.DailyTimeIntervalScheduleBuilder;
import org.quartz.DisallowConcurrentExecution;
import org.quartz.Job;
import org.quartz.JobBuilder;
import org.quartz.JobDetail;
import org.quartz.JobExecutionContext;
import org.quartz.ScheduleBuilder;
import org.quartz.SimpleScheduleBuilder;
import org.quartz.Trigger;
import org.quartz.TriggerBuilder;
import org.quartz.impl.StdSchedulerFactory;

/**
 * Uses Quartz and db-scheduler beside an import, for tests: {@code java Jobs.java quartz|db-scheduler write|fill|work URL},
 * with a URL of JDBC. write makes the tables, schedules jobs and prints each as JSON. fill schedules 1,000 jobs that are
 * due within ten seconds. work runs jobs until the process ends, and prints the name of each.
 */
public final class Jobs {
  static final long HOUR = 3_600_000;

  public static void main(String[] args) throws Exception {
    var source = new HikariDataSource();
    source.setJdbcUrl(args[2]);
    source.setMaximumPoolSize(12);
    try {
      if (args[0].equals("quartz")) {
        quartz(args[1], source, args[2]);
      } else {
        dbScheduler(args[1], source);
      }
    } catch (Exception e) {
      e.printStackTrace();
      System.exit(1); // threads of the schedulers would go on
    }
  }

  static void run(DataSource source, String script) throws Exception {
    try (var connection = source.getConnection(); var statement = connection.createStatement()) {
      for (String one : script.split(";")) {
        String text = one.replaceAll("(?m)^(#|--).*$", "").strip();
        if (!text.isEmpty() && !text.equalsIgnoreCase("COMMIT")) {
          statement.execute(text);
        }
      }
    }
  }

  static void show(String id, long due, String repeat, String type, String payload) {
    System.out.printf(
        "{\"id\": \"%s\", \"due\": %d, \"repeat\": \"%s\", \"queue\": \"default\", \"type\": \"%s\", \"payload\": \"%s\"}%n",
        id, due, repeat, type, payload.replace("\\", "\\\\").replace("\"", "\\\""));
  }

  static void refused(String id) {
    System.out.printf("{\"id\": \"%s\", \"refused\": true}%n", id);
  }

  // Quartz.

  public static class Mail implements Job {
    @Override
    public void execute(JobExecutionContext context) {
      System.out.println("quartz:shop:mails." + context.getTrigger().getKey().getName());
    }
  }

  @DisallowConcurrentExecution
  public static class Report extends Mail {}

  static org.quartz.Scheduler scheduler(String url) throws Exception {
    var p = new Properties();
    boolean mysql = url.startsWith("jdbc:mysql:");
    p.setProperty("org.quartz.scheduler.instanceName", "shop");
    p.setProperty("org.quartz.scheduler.skipUpdateCheck", "true");
    p.setProperty("org.quartz.scheduler.idleWaitTime", "1000");
    p.setProperty("org.quartz.threadPool.threadCount", "8");
    p.setProperty("org.quartz.jobStore.class", "org.quartz.impl.jdbcjobstore.JobStoreTX");
    p.setProperty("org.quartz.jobStore.driverDelegateClass",
        "org.quartz.impl.jdbcjobstore." + (mysql ? "StdJDBCDelegate" : "PostgreSQLDelegate"));
    p.setProperty("org.quartz.jobStore.useProperties", "true");
    p.setProperty("org.quartz.jobStore.dataSource", "ds");
    p.setProperty("org.quartz.dataSource.ds.provider", "hikaricp");
    p.setProperty("org.quartz.dataSource.ds.driver", mysql ? "com.mysql.cj.jdbc.Driver" : "org.postgresql.Driver");
    p.setProperty("org.quartz.dataSource.ds.URL", url);
    p.setProperty("org.quartz.dataSource.ds.user", "belfry");
    p.setProperty("org.quartz.dataSource.ds.password", "secret");
    p.setProperty("org.quartz.dataSource.ds.maxConnections", "10");
    return new StdSchedulerFactory(p).getScheduler();
  }

  static Trigger add(org.quartz.Scheduler quartz, Class<? extends Job> job, String name, ScheduleBuilder<?> rule, long delay)
      throws Exception {
    JobDetail detail = JobBuilder.newJob(job).withIdentity("job-" + name, "jobs").usingJobData("order", name).build();
    var trigger = TriggerBuilder.newTrigger().withIdentity(name, "mails").startAt(new Date(System.currentTimeMillis() + delay));
    quartz.scheduleJob(detail, (rule == null ? trigger : trigger.withSchedule(rule)).build());
    return quartz.getTrigger(org.quartz.TriggerKey.triggerKey(name, "mails"));
  }

  static void written(Trigger trigger, String name, String repeat, Class<?> job) {
    show("quartz:shop:mails." + name, trigger.getNextFireTime().getTime(), repeat, job.getName(), "");
  }

  static void quartz(String mode, DataSource source, String url) throws Exception {
    if (mode.equals("write")) {
      String tables = "/org/quartz/impl/jdbcjobstore/tables_" + (url.startsWith("jdbc:mysql:") ? "mysql_innodb" : "postgres") + ".sql";
      try (var in = org.quartz.Scheduler.class.getResourceAsStream(tables)) {
        run(source, new String(in.readAllBytes(), StandardCharsets.UTF_8));
      }
    }
    var quartz = scheduler(url);
    switch (mode) {
      case "write" -> {
        for (int i = 0; i < 300; i++) {
          written(add(quartz, Mail.class, "once-" + i, null, HOUR + i), "once-" + i, "", Mail.class);
        }
        written(add(quartz, Report.class, "daily", CronScheduleBuilder.cronSchedule("0 30 9 ? * 2-6")
            .inTimeZone(TimeZone.getTimeZone("Europe/Berlin")), 0), "daily", "0 30 9 ? * MON-FRI/Europe/Berlin/queue_one", Report.class);
        written(add(quartz, Mail.class, "five", SimpleScheduleBuilder.repeatMinutelyForTotalCount(5, 10), HOUR), "five",
            "10m0s/5/allow", Mail.class);
        written(add(quartz, Mail.class, "ever", SimpleScheduleBuilder.repeatHourlyForever(), HOUR), "ever", "1h0m0s/0/allow", Mail.class);
        add(quartz, Mail.class, "window", DailyTimeIntervalScheduleBuilder.dailyTimeIntervalSchedule(), HOUR);
        refused("quartz:shop:mails.window");
        add(quartz, Mail.class, "paused", null, HOUR);
        quartz.pauseTrigger(org.quartz.TriggerKey.triggerKey("paused", "mails"));
        refused("quartz:shop:mails.paused");
      }
      case "fill" -> {
        for (int i = 0; i < 1000; i++) {
          add(quartz, Mail.class, "job-" + i, null, i * 7 % 1000 * 10);
        }
      }
      default -> {
        quartz.start();
        Thread.currentThread().join();
      }
    }
    quartz.shutdown();
    System.exit(0);
  }

  // db-scheduler.

  static final String TABLE = """
      CREATE TABLE scheduled_tasks (task_name VARCHAR(100) NOT NULL, task_instance VARCHAR(100) NOT NULL, task_data %s,
      execution_time %s NULL, picked BOOLEAN NOT NULL, picked_by VARCHAR(50), last_success %2$s NULL,
      last_failure %2$s NULL, consecutive_failures INT, last_heartbeat %2$s NULL, version BIGINT NOT NULL,
      priority SMALLINT, state VARCHAR(50), PRIMARY KEY (task_name, task_instance))""";

  /** Writes strings as they are, as a serializer of JSON would. */
  static class Plain implements Serializer {
    @Override
    public byte[] serialize(Object data) {
      return data == null ? null : data.toString().getBytes(StandardCharsets.UTF_8);
    }

    @Override
    @SuppressWarnings("unchecked")
    public <T> T deserialize(Class<T> type, byte[] data) {
      return data == null ? null : (T) new String(data, StandardCharsets.UTF_8);
    }
  }

  static void dbScheduler(String mode, HikariDataSource source) throws Exception {
    OneTimeTask<String> mail = Tasks.oneTime("mail", String.class)
        .execute((instance, context) -> System.out.println("db-scheduler:mail:" + instance.getId()));
    RecurringTask<Void> clean = Tasks.recurring("clean", FixedDelay.ofHours(1)).execute((instance, context) -> {});
    boolean mysql = source.getJdbcUrl().startsWith("jdbc:mysql:");
    if (mode.equals("write")) {
      run(source, TABLE.formatted(mysql ? "BLOB" : "BYTEA", mysql ? "TIMESTAMP(6)" : "TIMESTAMP WITH TIME ZONE"));
    }
    SchedulerClient client = SchedulerClient.Builder.create(source, mail, clean).serializer(new Plain()).build();
    switch (mode) {
      case "write" -> {
        for (int i = 0; i < 1200; i++) {
          String data = i % 2 == 0 ? "{\"n\": " + i + "}" : "text " + i;
          Instant due = Instant.ofEpochSecond(Instant.now().getEpochSecond() + 3600 + i); // MySQL: db-scheduler cuts fractions
          client.scheduleIfNotExists(mail.instance("m-" + i, data), due);
          show("db-scheduler:mail:m-" + i, due.toEpochMilli(), "", "mail", data);
        }
        client.scheduleIfNotExists(clean.instance("recurring"), Instant.now().plus(Duration.ofHours(1)));
        refused("db-scheduler:clean:recurring");
      }
      case "fill" -> {
        for (int i = 0; i < 1000; i++) {
          client.scheduleIfNotExists(mail.instance("m-" + i, "x"), Instant.now().plusMillis(i * 7 % 1000 * 10));
        }
      }
      default -> {
        Scheduler.create(source, mail).serializer(new Plain()).threads(8).pollingInterval(Duration.ofMillis(200))
            .heartbeatInterval(Duration.ofSeconds(1)).build().start();
        Thread.currentThread().join();
      }
    }
    System.exit(0);
  }
}
