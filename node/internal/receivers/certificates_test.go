package receivers

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster/reload"
	"github.com/belfryhq/belfry/internal/assert"
)

// folder is a folder of certificates.
type folder struct {
	*testing.T
	dir string
	log bytes.Buffer
	*Certificates
}

func newFolder(t *testing.T) *folder {
	t.Helper()
	f := &folder{T: t, dir: t.TempDir()}
	var err error
	f.Certificates, err = OpenCertificates(f.dir, slog.New(slog.NewTextHandler(&f.log, nil)))
	assert.NoError(t, err)
	return f
}

// write makes the files of a certificate for a client.
func (f *folder) write(path, client string, validity time.Duration) {
	f.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	assert.NoError(f, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: client},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(validity),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	assert.NoError(f, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	assert.NoError(f, err)
	f.file(path+".crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	f.file(path+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

func (f *folder) file(path string, data []byte) {
	f.Helper()
	path = filepath.Join(f.dir, path)
	assert.NoError(f, os.MkdirAll(filepath.Dir(path), 0o700))
	assert.NoError(f, os.WriteFile(path, data, 0o600))
}

// shows expects the certificate of a client, or an error with a text.
func (f *folder) shows(namespace, name, want string) {
	f.Helper()
	cert, err := f.Certificate(namespace, name)
	if err != nil {
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), f.dir) {
			f.Errorf("%s/%s: %v", namespace, name, err)
		}
		return
	}
	again, err := f.Certificate(namespace, name)
	assert.NoError(f, err)
	assert.Equal(f, again == cert, true, "the same pointer")
	assert.Equal(f, cert.Leaf.Subject.CommonName, want, "%s/%s", namespace, name)
}

// A namespace's own certificate comes before one for all, and no other namespace gets it.
func TestCertificatesOfNamespaces(t *testing.T) {
	f := newFolder(t)
	f.shows("default", "a", "this node has no client certificate a: give it a.crt and a.key")
	f.write("a", "all", 90*24*time.Hour)
	f.write("shop/a", "shop", 90*24*time.Hour)
	f.write("shop/b", "shop's b", 90*24*time.Hour)
	f.shows("default", "a", "all")
	f.shows("shop", "a", "shop")
	f.shows("shop", "b", "shop's b")
	f.shows("default", "b", "this node has no client certificate b")
	f.file("shop/c.crt", []byte("half"))
	f.write("c", "all", time.Hour)
	f.shows("shop", "c", "the files of client certificate c are faulty")
	f.shows("default", "c", "all")
	if text := f.log.String(); strings.Count(text, "ends soon") != 1 || !strings.Contains(text, "cannot be used") {
		t.Error(text)
	}
	_, err := OpenCertificates(filepath.Join(f.dir, "none"), nil)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// Renewed files are taken, faulty ones are not, and a certificate without files ends.
func TestCertificatesFollowTheirFiles(t *testing.T) {
	f := newFolder(t)
	f.write("a", "first", time.Hour)
	f.shows("default", "a", "first")
	f.write("a", "second", -time.Minute)
	f.look(false)
	f.shows("default", "a", "first") // a copy may be under way
	f.look(false)
	f.shows("default", "a", "second")
	f.file("a.crt", []byte("half"))
	f.look(true)
	f.shows("default", "a", "second")
	f.write("default/a", "of the namespace", time.Hour)
	f.shows("default", "a", "second")
	f.look(true)
	f.shows("default", "a", "of the namespace")
	f.shows("shop", "a", "second")
	assert.NoError(t, os.Remove(filepath.Join(f.dir, "a.crt")))
	f.look(true)
	f.shows("shop", "a", "this node has no client certificate a")
	for _, want := range []string{"a new certificate", "the earlier one stays", "is gone", "not valid now"} {
		assert.Equal(t, strings.Contains(f.log.String(), want), true, "%s in %s", want, &f.log)
	}
}

func TestRunLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFolder(t)
		f.write("a", "first", time.Hour)
		f.shows("default", "a", "first")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			f.Certificates.Run(ctx, nil)
		}()
		f.write("a", "second", time.Hour)
		time.Sleep(2*reload.Every + time.Second)
		synctest.Wait()
		f.shows("default", "a", "second")
		cancel()
		<-ended
	})
}
