// Package depottest runs an S3 server as a process, for tests: versitygw, which keeps objects as files of a folder.
package depottest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/signer"
)

// ServerVariable names the program in the environment. Without it the tests are skipped.
const ServerVariable = "BELFRY_S3_SERVER"

const patience = 20 * time.Second

// Start runs a server until the test ends. It returns the environment of its clients and the name of an empty bucket.
func Start(t *testing.T) (env map[string]string, bucket string) {
	t.Helper()
	program := os.Getenv(ServerVariable)
	if program == "" {
		t.Skip(ServerVariable + " names no S3 server")
	}
	dir, addr := t.TempDir(), freeAddr(t)
	for _, name := range []string{"data", "meta"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const key, secret = "testkey", "testsecret"
	server := exec.CommandContext(t.Context(), program, "--port", addr, "--access", key, "--secret", secret,
		"posix", "--sidecar", filepath.Join(dir, "meta"), filepath.Join(dir, "data"))
	server.Stdout, server.Stderr = t.Output(), t.Output()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Wait() }) // the end of the test's context kills it
	const name, region = "backups", "us-east-1"
	tick, late := time.NewTicker(50*time.Millisecond), time.After(patience)
	defer tick.Stop()
	for {
		err := makeBucket(t, "http://"+addr+"/"+name, key, secret, region)
		if err == nil {
			break
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("the server does not answer: %v", err)
		}
	}
	return map[string]string{
		"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "AWS_ENDPOINT_URL": "http://" + addr,
		"AWS_REGION": region,
	}, name
}

func makeBucket(t *testing.T, url, key, secret, region string) error {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, http.NoBody)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(nil)
	req.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
	answer, err := http.DefaultClient.Do(signer.SignV4(*req, key, secret, "", region))
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // the answer was read
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("make a bucket: %s", answer.Status)
	}
	return nil
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}
