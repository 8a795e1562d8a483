package broker

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/belfryhq/belfry/fsm/task/targeturl"
)

// Known is the set of permitted brokers, as an operator names them, with the access to each. It never changes.
type Known struct {
	byAddress map[string]*access // scheme://host:port
}

// access is one broker's entry in the file of brokers.
type access struct {
	User         string `yaml:"user"`
	Password     string `yaml:"password"`
	PasswordFile string `yaml:"password_file"`
	Token        string `yaml:"token"`     // NATS
	Mechanism    string `yaml:"mechanism"` // Kafka: plain (the default), scram-sha-256 or scram-sha-512
	CA           string `yaml:"ca"`        // PEM files
	Cert         string `yaml:"cert"`
	Key          string `yaml:"key"`

	tls *tls.Config // nil without TLS
}

// LoadKnown reads a YAML mapping from brokers, named as in a target's URL up to the path, to their access: user,
// password or password_file, token (NATS), mechanism (Kafka), and for TLS ca, cert and key. All of these are optional,
// and file names are relative to the mapping's folder. LoadKnown refuses a file that others than its owner and group
// may read, or that others than its owner may change.
func LoadKnown(path string) (*Known, error) {
	if err := checkMode(path); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	k, err := parseKnown(data, filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

func checkMode(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&0o027 != 0 {
		return fmt.Errorf("%s has secrets in it and mode %04o: take the rights of others away (chmod 640 or 600)", path, mode)
	}
	return nil
}

func parseKnown(data []byte, folder string) (*Known, error) {
	var entries map[string]*access
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&entries); err != nil && !errors.Is(err, io.EOF) {
		return nil, withoutValues(err)
	}
	k := &Known{byAddress: map[string]*access{}}
	for name, a := range entries {
		if a == nil {
			a = &access{} // a named broker without settings
		}
		if err := k.add(name, a, folder); err != nil {
			return nil, fmt.Errorf("%s: %w", withoutCredentials(name), err)
		}
	}
	return k, nil
}

// withoutValues removes the quoted values from a decoder's error, since they may be passwords.
func withoutValues(err error) error {
	return errors.New(regexp.MustCompile("`[^`]*`").ReplaceAllString(err.Error(), "…"))
}

// withoutCredentials returns a broker's name without a user and password, which a name must not but may contain.
func withoutCredentials(name string) string {
	if i := strings.LastIndex(name, "@"); i >= 0 {
		return "…" + name[i:]
	}
	return name
}

func (k *Known) add(name string, a *access, folder string) error {
	t, rest, err := targeturl.ParseBroker(name)
	switch {
	case err != nil:
		return err
	case t.Kind == targeturl.HTTP:
		return errors.New("is no broker")
	case rest.Path != "" && rest.Path != "/" || rest.RawQuery != "":
		return errors.New("says more than scheme, hosts and ports")
	}
	if err := a.check(t.Kind, t.TLS); err != nil {
		return err
	}
	if err := a.load(folder, t.TLS); err != nil {
		return err
	}
	for _, host := range t.Hosts {
		address := t.Scheme + "://" + host
		if k.byAddress[address] != nil {
			return fmt.Errorf("%s is there twice", address)
		}
		k.byAddress[address] = a
	}
	return nil
}

func (a *access) check(kind targeturl.Kind, overTLS bool) error {
	files := a.CA != "" || a.Cert != "" || a.Key != ""
	password := a.Password != "" || a.PasswordFile != ""
	switch {
	case a.Password != "" && a.PasswordFile != "":
		return errors.New("password and password_file: one of them")
	case a.User != "" && !password:
		return errors.New("a user without a password")
	case password && a.User == "" && kind != targeturl.Redis:
		return errors.New("a password without a user")
	case a.Token != "" && kind != targeturl.NATS:
		return errors.New("only NATS has tokens")
	case a.Token != "" && password:
		return errors.New("a token and a password: one of them")
	case files && !overTLS:
		return errors.New("ca, cert and key need TLS: natss, amqps, rediss, kafkas or rocketmqs")
	case (a.Cert == "") != (a.Key == ""):
		return errors.New("cert and key go together")
	}
	return a.checkMechanism(kind)
}

func (a *access) checkMechanism(kind targeturl.Kind) error {
	switch {
	case a.Mechanism == "":
		return nil
	case kind != targeturl.Kafka:
		return errors.New("only Kafka has a mechanism")
	case a.Mechanism != mechanismPlain && a.Mechanism != mechanismSHA256 && a.Mechanism != mechanismSHA512:
		return fmt.Errorf("mechanism %q: %s, %s or %s", a.Mechanism, mechanismPlain, mechanismSHA256, mechanismSHA512)
	}
	return nil
}

// load reads the files that an entry names, relative to folder.
func (a *access) load(folder string, overTLS bool) error {
	in := func(path string) string {
		if filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(folder, path)
	}
	if a.PasswordFile != "" {
		data, err := os.ReadFile(in(a.PasswordFile))
		if err != nil {
			return fmt.Errorf("password_file: %w", err)
		}
		a.Password = strings.TrimRight(string(data), "\r\n")
	}
	if !overTLS {
		return nil
	}
	a.tls = newTLS()
	if a.CA != "" {
		pem, err := os.ReadFile(in(a.CA))
		if err != nil {
			return fmt.Errorf("ca: %w", err)
		}
		a.tls.RootCAs = x509.NewCertPool()
		if !a.tls.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("ca: %s has no certificate in it", a.CA)
		}
	}
	if a.Cert != "" {
		pair, err := tls.LoadX509KeyPair(in(a.Cert), in(a.Key))
		if err != nil {
			return fmt.Errorf("cert, key: %w", err)
		}
		a.tls.Certificates = []tls.Certificate{pair}
	}
	return nil
}

func newTLS() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }

// accessFor returns the one entry that names every host of the target, or nil if there is none. With more than one
// entry, one host would get the password of another.
func (k *Known) accessFor(t *targeturl.Target) *access {
	var found *access
	for i, host := range t.Hosts {
		a := k.byAddress[t.Scheme+"://"+host]
		if a == nil || i > 0 && a != found {
			return nil
		}
		found = a
	}
	return found
}
