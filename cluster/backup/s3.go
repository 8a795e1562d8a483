package backup

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/belfryhq/belfry/internal/wait"
)

const (
	amazonHost    = "s3.amazonaws.com"
	defaultRegion = "us-east-1"

	s3Tries      = 10 // of one request
	s3FirstPause = 200 * time.Millisecond
	s3LastPause  = time.Second
	s3AnswerWait = time.Minute // until the head of an answer

	maxAnswer = 8 << 20 // bytes of an answer in XML
)

// s3Store calls the API of one bucket. Its methods may be called concurrently.
type s3Store struct {
	endpoint           *url.URL
	bucket             string
	key, secret, token string
	fixedRegion        string                 // empty: the store may name another one
	region             atomic.Pointer[string] // that signs requests
	client             *http.Client
}

// newS3Store returns the store of a bucket. An empty region stands for the endpoint's own one.
func newS3Store(endpoint *url.URL, bucket, key, secret, token, region string) *s3Store {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // an object is returned as it is
	transport.ResponseHeaderTimeout = s3AnswerWait
	s := &s3Store{
		endpoint: endpoint, bucket: bucket, key: key, secret: secret, token: token, fixedRegion: region,
		client: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // a redirect needs another signature
		}},
	}
	first := cmp.Or(region, s3utils.GetRegionFromURL(*endpoint), defaultRegion)
	s.region.Store(&first)
	return s
}

// s3Request is a request, in the form that may be sent again.
type s3Request struct {
	method string
	object string     // empty: the bucket itself
	query  url.Values // may be nil
	header http.Header
	body   []byte
}

// s3Error is an answer that reports an error.
type s3Error struct {
	XMLName xml.Name `xml:"Error"`
	Code    string
	Message string
	Region  string // of the bucket, if the request was signed for another one
	status  int
}

func (e *s3Error) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("s3: status %d", e.status)
	}
	return fmt.Sprintf("s3: %s (%s)", strings.TrimSuffix(e.Message, "."), e.Code)
}

// passes reports whether the same request may succeed later.
func (e *s3Error) passes() bool {
	switch e.status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return slices.Contains([]string{
		"RequestTimeout", "Throttling", "ThrottlingException", "RequestLimitExceeded", "SlowDown", "InternalError",
	}, e.Code)
}

// address returns the URL of a request: with the bucket in the host's name where the store wants it, else in the path.
func (s *s3Store) address(r *s3Request) string {
	host, path := s.endpoint.Host, "/"
	if host == amazonHost {
		region := *s.region.Load()
		host = "s3.dualstack." + region + ".amazonaws.com"
		if strings.HasPrefix(region, "cn-") {
			host += ".cn"
		}
	}
	if s3utils.IsVirtualHostSupported(*s.endpoint, s.bucket) {
		host = s.bucket + "." + host
	} else {
		path += s.bucket + "/"
	}
	address := s.endpoint.Scheme + "://" + host + path + s3utils.EncodePath(r.object)
	if len(r.query) > 0 {
		address += "?" + s3utils.QueryEncode(r.query)
	}
	return address
}

// do sends a request until it succeeds, or an error does not pass. The caller closes the body of the answer.
func (s *s3Store) do(ctx context.Context, r *s3Request) (*http.Response, error) {
	pause := s3FirstPause
	for try := 1; ; try++ {
		answer, err := s.send(ctx, r)
		if err == nil {
			return answer, nil
		}
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case try == s3Tries:
			return nil, err
		case s.learn(err):
			continue
		case !mayPass(err):
			return nil, err
		}
		if !wait.For(ctx, rand.N(pause)+time.Millisecond) {
			return nil, ctx.Err()
		}
		pause = min(2*pause, s3LastPause)
	}
}

// mayPass reports whether a request that failed may succeed later.
func mayPass(err error) bool {
	var said *s3Error
	if errors.As(err, &said) {
		return said.passes()
	}
	var stranger x509.UnknownAuthorityError
	return !errors.As(err, &stranger) && !errors.Is(err, http.ErrSchemeMismatch)
}

// learn takes the bucket's region from an error, and reports whether it is a new one.
func (s *s3Store) learn(err error) bool {
	var said *s3Error
	if s.fixedRegion != "" || !errors.As(err, &said) || said.Region == "" {
		return false
	}
	return *s.region.Swap(&said.Region) != said.Region
}

func (s *s3Store) send(ctx context.Context, r *s3Request) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, s.address(r), bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	sum := sha256.Sum256(r.body)
	req.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
	answer, err := s.client.Do(signer.SignV4(*req, s.key, s.secret, s.token, *s.region.Load()))
	if err != nil {
		return nil, err
	}
	ok := answer.StatusCode/100 == 2
	if ok && r.method != http.MethodPost { // the answer to a POST may report an error after its head was sent
		return answer, nil
	}
	defer func() { _ = answer.Body.Close() }() // the answer was read
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil && ok {
		return nil, err
	}
	said := &s3Error{}
	if xml.Unmarshal(body, said) != nil {
		if ok {
			answer.Body = io.NopCloser(bytes.NewReader(body))
			return answer, nil
		}
		*said = s3Error{}
	}
	said.status = answer.StatusCode
	said.Region = cmp.Or(answer.Header.Get("X-Amz-Bucket-Region"), said.Region)
	return nil, said
}

// call sends a request, and decodes the answer's XML into result, unless that is nil.
func (s *s3Store) call(ctx context.Context, r *s3Request, result any) (http.Header, error) {
	answer, err := s.do(ctx, r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }() // the answer was read
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err == nil && result != nil {
		err = xml.Unmarshal(body, result)
	}
	return answer.Header, err
}

// get returns the content of an object.
func (s *s3Store) get(ctx context.Context, object string) (io.ReadCloser, error) {
	answer, err := s.do(ctx, &s3Request{method: http.MethodGet, object: object})
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// remove removes an object, if it is there.
func (s *s3Store) remove(ctx context.Context, object string) error {
	_, err := s.call(ctx, &s3Request{method: http.MethodDelete, object: object}, nil)
	return err
}

// list returns the names of all objects that begin with a prefix.
func (s *s3Store) list(ctx context.Context, prefix string) ([]string, error) {
	var names []string
	query := url.Values{"list-type": {"2"}, "prefix": {prefix}, "encoding-type": {"url"}}
	for {
		var page struct {
			Contents []struct{ Key string }
			Next     string `xml:"NextContinuationToken"`
			Encoding string `xml:"EncodingType"`
		}
		if _, err := s.call(ctx, &s3Request{method: http.MethodGet, query: query}, &page); err != nil {
			return nil, err
		}
		for _, object := range page.Contents {
			name := object.Key
			if page.Encoding == "url" {
				var err error
				if name, err = url.QueryUnescape(name); err != nil {
					return nil, err
				}
			}
			names = append(names, name)
		}
		if page.Next == "" {
			return names, nil
		}
		query.Set("continuation-token", page.Next)
	}
}

// checked returns the headers of an upload. The store compares the bytes that it gets with the sum in the header.
func checked(body []byte) http.Header {
	sum := md5.Sum(body)
	return http.Header{"Content-Md5": {base64.StdEncoding.EncodeToString(sum[:])}}
}

// s3Upload writes an object. It appears, whole, when close returns without an error. The upload has one part in memory.
type s3Upload struct {
	ctx    context.Context
	store  *s3Store
	object string
	id     string // empty: no part was sent yet
	parts  []s3Part
	rest   []byte // not sent yet; shorter than partBytes
}

type s3Part struct {
	Number int `xml:"PartNumber"`
	ETag   string
}

const contentType = "application/vnd.belfry.backup"

func (u *s3Upload) Write(p []byte) (int, error) {
	if u.rest == nil {
		u.rest = make([]byte, 0, partBytes)
	}
	for written := 0; ; {
		n := min(len(p)-written, partBytes-len(u.rest))
		u.rest = append(u.rest, p[written:written+n]...)
		written += n
		if len(u.rest) < partBytes {
			return written, nil
		}
		if err := u.send(); err != nil {
			return written, err
		}
	}
}

// send sends the rest as the next part.
func (u *s3Upload) send() error {
	if u.id == "" {
		var begun struct {
			ID string `xml:"UploadId"`
		}
		r := &s3Request{
			method: http.MethodPost, object: u.object, query: url.Values{"uploads": {""}},
			header: http.Header{"Content-Type": {contentType}},
		}
		if _, err := u.store.call(u.ctx, r, &begun); err != nil {
			return err
		}
		if u.id = begun.ID; u.id == "" {
			return errors.New("s3: the answer has no id of an upload in it")
		}
	}
	number := len(u.parts) + 1
	header, err := u.store.call(u.ctx, &s3Request{
		method: http.MethodPut, object: u.object, header: checked(u.rest), body: u.rest,
		query: url.Values{"partNumber": {strconv.Itoa(number)}, "uploadId": {u.id}},
	}, nil)
	if err != nil {
		return err
	}
	u.parts = append(u.parts, s3Part{Number: number, ETag: header.Get("ETag")})
	u.rest = u.rest[:0]
	return nil
}

// close makes the parts an object.
func (u *s3Upload) close() error {
	if u.id == "" {
		header := checked(u.rest)
		header.Set("Content-Type", contentType)
		_, err := u.store.call(u.ctx, &s3Request{method: http.MethodPut, object: u.object, header: header, body: u.rest}, nil)
		return err
	}
	if len(u.rest) > 0 {
		if err := u.send(); err != nil {
			return err
		}
	}
	body, err := xml.Marshal(struct {
		XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ CompleteMultipartUpload"`
		Part    []s3Part
	}{Part: u.parts})
	if err != nil {
		return err
	}
	_, err = u.store.call(u.ctx, &s3Request{
		method: http.MethodPost, object: u.object, query: url.Values{"uploadId": {u.id}}, body: body,
	}, nil)
	return err
}

// abort removes the parts that were sent.
func (u *s3Upload) abort(ctx context.Context) error {
	if u.id == "" {
		return nil
	}
	_, err := u.store.call(ctx, &s3Request{
		method: http.MethodDelete, object: u.object, query: url.Values{"uploadId": {u.id}},
	}, nil)
	return err
}
