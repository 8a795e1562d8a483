<?php
// A worker of Laravel's queues, set up as an application does it, with a job that prints what it was given.

namespace {
    foreach (['Bus', 'Container', 'Contracts', 'Events', 'Pipeline', 'Queue', 'Redis', 'Support'] as $part) {
        require_once "Illuminate/$part/autoload.php";
    }
}

namespace App\Jobs {
    class CloseOrder implements \Illuminate\Contracts\Queue\ShouldQueue
    {
        use \Illuminate\Bus\Queueable;
        use \Illuminate\Queue\InteractsWithQueue;

        public function __construct(public int $order)
        {
        }

        public function handle()
        {
            echo "closed {$this->order} {$this->job->getJobId()}\n";
        }
    }
}

namespace {
    class Handler implements \Illuminate\Contracts\Debug\ExceptionHandler
    {
        public function report(Throwable $e)
        {
            fwrite(STDERR, "$e\n");
        }

        public function shouldReport(Throwable $e)
        {
            return true;
        }

        public function render($request, Throwable $e)
        {
            throw $e;
        }

        public function renderForConsole($output, Throwable $e)
        {
            throw $e;
        }
    }

    $redis = parse_url(getenv('REDIS_URL'));
    $app = new Illuminate\Container\Container();
    Illuminate\Container\Container::setInstance($app);
    $app->instance(Illuminate\Contracts\Container\Container::class, $app);
    $app->singleton(Illuminate\Contracts\Bus\Dispatcher::class, fn () => new Illuminate\Bus\Dispatcher($app));
    $app->singleton('redis', fn () => new Illuminate\Redis\RedisManager($app, 'phpredis', [
        'options' => ['prefix' => 'laravel_database_'],
        'default' => ['host' => $redis['host'], 'port' => $redis['port'], 'database' => 0],
    ]));
    $queue = new Illuminate\Queue\Capsule\Manager($app);
    $queue->addConnection(['driver' => 'redis', 'connection' => 'default', 'queue' => 'default', 'retry_after' => 90]);
    $events = new Illuminate\Events\Dispatcher($app);
    $worker = new Illuminate\Queue\Worker($queue->getQueueManager(), $events, new Handler(), fn () => false);
    echo "working\n";
    $worker->daemon('default', 'default', new Illuminate\Queue\WorkerOptions('default', 0, 128, 60, 0.1));
}
