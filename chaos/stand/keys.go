package stand

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
)

// nodeSuffix ends the DNS name of a node in its certificate.
const nodeSuffix = ".node.belfry"

// validity is the validity of certificates. It is longer than any run, also one that is examined a while later.
const validity = 90 * 24 * time.Hour

// keyring is a folder with the nodes' certificates and keys. Beyond loopback nodes open their peer port only with keys.
type keyring struct {
	dir  string
	ca   *x509.Certificate
	sign *ecdsa.PrivateKey
}

// newKeyring makes an authority and a gossip key. It replaces those of an earlier run in the folder.
func newKeyring(dir string) (*keyring, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	k := &keyring{dir: dir}
	var err error
	if k.sign, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	k.ca = template("authority of a stand")
	k.ca.IsCA, k.ca.BasicConstraintsValid, k.ca.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, k.ca, k.ca, k.sign.Public(), k.sign)
	if err != nil {
		return nil, err
	}
	gossip := make([]byte, 32)
	_, err = rand.Read(gossip)
	return k, errors.Join(err, k.writePEM("ca.pem", "CERTIFICATE", der),
		os.WriteFile(k.path("gossip.key"), []byte(base64.StdEncoding.EncodeToString(gossip)+"\n"), 0o600))
}

// args makes a node's certificate, and returns the node's arguments for all of its keys.
func (k *keyring) args(node string) ([]string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	cert := template(node)
	cert.DNSNames = []string{node + nodeSuffix}
	cert.KeyUsage = x509.KeyUsageDigitalSignature
	cert.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	certDER, err := x509.CreateCertificate(rand.Reader, cert, k.ca, key.Public(), k.sign)
	if err != nil {
		return nil, fmt.Errorf("certificate of %s: %w", node, err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	err = errors.Join(k.writePEM(node+".pem", "CERTIFICATE", certDER), k.writePEM(node+".key", "PRIVATE KEY", keyDER))
	return []string{
		"--peer-cert", k.path(node + ".pem"), "--peer-key", k.path(node + ".key"),
		"--peer-ca", k.path("ca.pem"), "--gossip-key-file", k.path("gossip.key"),
	}, err
}

func template(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-validity), NotAfter: now.Add(validity), // in the past, too: a node's clock may be set back
	}
}

func (k *keyring) path(file string) string { return filepath.Join(k.dir, file) }

func (k *keyring) writePEM(file, kind string, der []byte) error {
	return os.WriteFile(k.path(file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// withoutRootKey leaves a node without the root key of the others.
func withoutRootKey(p *local.Place) { p.Args = append(p.Args, "--root-key-file=") }

// putKeysInForce makes an admin key through the API and writes it in place of the root key. All nodes take this key,
// those without a root key, too: nodes with one read the file at each start.
func putKeysInForce(ctx context.Context, cluster *local.Cluster) error {
	c, err := client.New(client.Config{Addrs: cluster.URLs()[:1], KeyFile: cluster.KeyFile(), FixedAddrs: true})
	if err != nil {
		return err
	}
	made, err := c.CreateKey(ctx, client.KeyRequest{
		Name: "admin of the stand", Grants: []client.Grant{{Role: client.RoleAdmin, Namespace: client.AllNamespaces}},
	})
	if err != nil {
		return fmt.Errorf("making the stand's admin key: %w", err)
	}
	fresh := cluster.KeyFile() + ".new"
	return errors.Join(os.WriteFile(fresh, []byte(made.Key.Text()+"\n"), 0o600), os.Rename(fresh, cluster.KeyFile()))
}
