// The command keeps delayed work in a sorted set, as programs do with go-redis. Arguments: host, port, password.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
	fmt.Println("ok")
}

func run(ctx context.Context, host, port, password string) error {
	client := redis.NewClient(&redis.Options{Addr: net.JoinHostPort(host, port), Password: password})
	defer func() { _ = client.Close() }() // all answers are here
	now := float64(time.Now().UnixMilli()) / 1000
	later := float64(int64(now) + 3600)
	text := strconv.FormatFloat(now, 'f', -1, 64)
	errs := []error{
		want[int64](3)(client.ZAdd(ctx, "jobs", redis.Z{Score: now - 2, Member: "a"}, redis.Z{Score: now - 1, Member: "b"},
			redis.Z{Score: later, Member: `{"order": 1}`}).Result()),
		want[int64](1)(client.ZAddArgs(ctx, "jobs", redis.ZAddArgs{XX: true, Ch: true,
			Members: []redis.Z{{Score: now - 3, Member: "a"}}}).Result()),
		want[int64](0)(client.ZAddNX(ctx, "jobs", redis.Z{Score: later, Member: "b"}).Result()),
		want(later)(client.ZScore(ctx, "jobs", `{"order": 1}`).Result()),
		want[int64](3)(client.ZCard(ctx, "jobs").Result()),
	}
	if _, err := client.ZScore(ctx, "jobs", "none").Result(); !errors.Is(err, redis.Nil) {
		errs = append(errs, fmt.Errorf("an absent member: %w", err))
	}
	due, err := client.ZRangeByScoreWithScores(ctx, "jobs", &redis.ZRangeBy{Min: "-inf", Max: text, Count: 10}).Result()
	if err != nil || len(due) != 2 || due[0].Member != "a" || due[1].Member != "b" {
		errs = append(errs, fmt.Errorf("due: %v, %w", due, err))
	}
	errs = append(errs, want[int64](1)(client.ZRem(ctx, "jobs", "a", "none").Result()),
		want[int64](0)(client.ZRem(ctx, "jobs", "a").Result()))
	var popped []redis.Z
	for deadline := time.Now().Add(30 * time.Second); err == nil && len(popped) == 0 && time.Now().Before(deadline); {
		popped, err = client.ZPopMin(ctx, "jobs", 1).Result()
	}
	if err != nil || len(popped) != 1 || popped[0].Member != "b" {
		errs = append(errs, fmt.Errorf("popped: %v, %w", popped, err))
	}
	_, err = client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for n := range 200 {
			pipe.ZAdd(ctx, "many", redis.Z{Score: later + float64(n), Member: n})
		}
		return nil
	})
	errs = append(errs, err, want[int64](200)(client.ZCard(ctx, "many").Result()))
	if err := client.Do(ctx, "ZADD", "jobs", "soon", "a").Err(); err == nil ||
		!strings.Contains(err.Error(), "value is not a valid float") {
		errs = append(errs, fmt.Errorf("a wrong score: %w", err))
	}
	return errors.Join(errs...)
}

// want returns a function that compares an answer.
func want[T comparable](wanted T) func(T, error) error {
	return func(got T, err error) error {
		if err == nil && got != wanted {
			err = fmt.Errorf("got %v, want %v", got, wanted)
		}
		return err
	}
}
