// Package installed finds the programs of peers outside the PATH.
package installed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// natsVariable is the environment variable with the path of nats-server.
const natsVariable = "BELFRY_NATS_SERVER"

// NATS finds nats-server: the path in BELFRY_NATS_SERVER, else the one in a folder bin, else the one in the PATH. The
// server must support message schedules; Debian's does not.
func NATS() (string, error) {
	if named := os.Getenv(natsVariable); named != "" {
		return exec.LookPath(named)
	}
	return goServer("nats-server")
}

// Etcd finds etcd: the one in a folder bin, else the one in the PATH.
func Etcd() (string, error) { return goServer("etcd") }

// goServer finds a server that make bench-peers builds: the one in a folder bin, else the one in the PATH.
func goServer(program string) (string, error) {
	if path, err := built(program); err == nil {
		return path, nil
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("%s (make bench-peers builds it from its Go module)", program)
	}
	return path, nil
}

// built finds a program in the folder bin of a module. It searches from the working directory upwards.
func built(program string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			if path, err := exec.LookPath(filepath.Join(dir, "bin", program)); err == nil {
				return path, nil
			}
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fs.ErrNotExist
		}
		dir = parent
	}
}

// Debian returns an error if a program is not there that Debian's package of the same name installs.
func Debian(program string) error {
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("%s (Debian's package of that name; make bench-peers)", program)
	}
	return nil
}

// RabbitMQ finds the server's own script. The script in the PATH changes the user and uses Debian's folders.
func RabbitMQ() (string, error) {
	path, err := exec.LookPath("/usr/lib/rabbitmq/bin/rabbitmq-server")
	if err != nil {
		return "", errors.New("rabbitmq-server (Debian's package of that name; make bench-peers)")
	}
	return path, nil
}

// DelayPlugin finds the folders of RabbitMQ's plugins, with a colon between them: that of the server, and the one of
// the plugin for delayed messages, from its environment variable. No registry has this plugin: it is compiled from its
// sources, of the server's version.
func DelayPlugin() (string, error) {
	folder := os.Getenv("BELFRY_RABBITMQ_PLUGIN")
	if folder == "" {
		return "", errors.New("the plugin for delayed messages (BELFRY_RABBITMQ_PLUGIN names its folder)")
	}
	own, err := filepath.Glob("/usr/lib/rabbitmq/lib/rabbitmq_server-*/plugins")
	return strings.Join(append(own, folder), ":"), err
}

// PostgreSQL finds the folder of the newest server's programs.
func PostgreSQL() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil // sorted by name; version numbers have two digits
	}
	path, err := exec.LookPath("postgres")
	if err != nil {
		return "", errors.New("postgresql (Debian's package of that name; make bench-peers)")
	}
	return filepath.Dir(path), nil
}
