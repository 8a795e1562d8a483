package backup

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// fakeStore answers the requests of a client, one after another.
type fakeStore struct {
	t       *testing.T
	answers []fakeAnswer
	got     []string // method and URL of each request
	auth    []string
}

type fakeAnswer struct {
	status int
	body   string
	header http.Header
	err    error
}

func (f *fakeStore) RoundTrip(r *http.Request) (*http.Response, error) {
	f.got = append(f.got, r.Method+" "+r.URL.String())
	f.auth = append(f.auth, r.Header.Get("Authorization"))
	if r.Body != nil {
		_, err := io.Copy(io.Discard, r.Body)
		assert.Equal(f.t, err, nil)
	}
	if len(f.answers) == 0 {
		f.t.Fatalf("unexpected %s %s", r.Method, r.URL)
	}
	a := f.answers[0]
	f.answers = f.answers[1:]
	if a.err != nil {
		return nil, a.err
	}
	header := a.header
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{
		StatusCode: a.status, Header: header, Body: io.NopCloser(strings.NewReader(a.body)), Request: r,
	}, nil
}

// storeOf returns a client of bucket b whose requests get these answers.
func storeOf(t *testing.T, endpoint, region string, answers ...fakeAnswer) (*s3Store, *fakeStore) {
	t.Helper()
	at, err := url.Parse(endpoint)
	assert.NoError(t, err)
	s, f := newS3Store(at, "b", "key", "secret", "token", region), &fakeStore{t: t, answers: answers}
	s.client.Transport = f
	return s, f
}

// TestS3Retries checks that a request is repeated after an error that passes, ten times at most, and after no other.
func TestS3Retries(t *testing.T) {
	slow := fakeAnswer{status: 503, body: "<Error><Code>SlowDown</Code><Message>Slower.</Message></Error>"}
	cut := fakeAnswer{err: io.ErrUnexpectedEOF}
	timeout := fakeAnswer{status: 400, body: "<Error><Code>RequestTimeout</Code></Error>"}
	done := fakeAnswer{status: 204}
	for name, test := range map[string]struct {
		answers  []fakeAnswer
		requests int
		err      string
	}{
		"at last":   {[]fakeAnswer{slow, cut, timeout, {status: 502, body: "<html>"}, done}, 5, ""},
		"never":     {slices.Repeat([]fakeAnswer{slow}, 20), 10, "s3: Slower (SlowDown)"},
		"no answer": {slices.Repeat([]fakeAnswer{cut}, 20), 10, "unexpected EOF"},
		"denied": {[]fakeAnswer{{status: 403, body: "<Error><Code>AccessDenied</Code><Message>No.</Message></Error>"}}, 1,
			"s3: No (AccessDenied)"},
		"no XML": {[]fakeAnswer{{status: 404, body: "<html>none"}}, 1, "s3: status 404"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, f := storeOf(t, "https://s3.example", "", test.answers...)
				begun := time.Now()
				err := s.remove(t.Context(), "x")
				if len(f.got) != test.requests || (err == nil) != (test.err == "") ||
					err != nil && !strings.Contains(err.Error(), test.err) {
					t.Errorf("%v after %d requests", err, len(f.got))
				}
				if took := time.Since(begun); took > 10*time.Second || (took > 0) != (test.requests > 1) {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// TestS3Addresses checks where a bucket is: in the name of the host for Amazon, in the path for other stores.
func TestS3Addresses(t *testing.T) {
	for _, test := range []struct{ endpoint, region, want string }{
		{"https://s3.amazonaws.com", "", "https://b.s3.dualstack.us-east-1.amazonaws.com/some/a%2Bb"},
		{"https://s3.amazonaws.com", "eu-west-3", "https://b.s3.dualstack.eu-west-3.amazonaws.com/some/a%2Bb"},
		{"https://s3.amazonaws.com", "cn-north-1", "https://b.s3.dualstack.cn-north-1.amazonaws.com.cn/some/a%2Bb"},
		{"https://s3.eu-west-3.amazonaws.com", "", "https://b.s3.eu-west-3.amazonaws.com/some/a%2Bb"},
		{"https://storage.googleapis.com", "", "https://b.storage.googleapis.com/some/a%2Bb"},
		{"http://127.0.0.1:9000", "", "http://127.0.0.1:9000/b/some/a%2Bb"},
	} {
		s, f := storeOf(t, test.endpoint, test.region, fakeAnswer{status: 200, body: "content"})
		content, err := s.get(t.Context(), "some/a+b")
		assert.NoError(t, err)
		if got, err := io.ReadAll(content); err != nil || string(got) != "content" {
			t.Errorf("%q, %v", got, err)
		}
		assert.Equal(t, f.got[0], "GET "+test.want, "%s", test.endpoint)
	}
}

// TestS3Region checks that requests are signed for the region that the store names, unless the environment names one.
func TestS3Region(t *testing.T) {
	moved := fakeAnswer{status: 301, header: http.Header{"X-Amz-Bucket-Region": {"eu-west-3"}}}
	malformed := fakeAnswer{status: 400,
		body: "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-3</Region></Error>"}
	for _, answer := range []fakeAnswer{moved, malformed} {
		s, f := storeOf(t, "https://s3.amazonaws.com", "", answer, fakeAnswer{status: 204})
		assert.Equal(t, s.remove(t.Context(), "x"), nil)
		if !strings.Contains(f.auth[0], "/us-east-1/s3/") || !strings.Contains(f.auth[1], "/eu-west-3/s3/") ||
			f.got[1] != "DELETE https://b.s3.dualstack.eu-west-3.amazonaws.com/x" {
			t.Errorf("%v, %v", f.auth, f.got)
		}
		s, _ = storeOf(t, "https://s3.amazonaws.com", "us-west-1", answer)
		assert.Error(t, s.remove(t.Context(), "x"), "a wrong region in the environment")
	}
	// A store that names another region each time does not keep the client busy.
	var turns []fakeAnswer
	for range s3Tries {
		other := http.Header{"X-Amz-Bucket-Region": {[]string{"a", "b"}[len(turns)%2]}}
		turns = append(turns, fakeAnswer{status: 301, header: other})
	}
	s, _ := storeOf(t, "https://s3.amazonaws.com", "", turns...)
	assert.Error(t, s.remove(t.Context(), "x"), "no region, and no error")
}

// TestS3Pages checks that a list has the objects of all pages, under their own names.
func TestS3Pages(t *testing.T) {
	page := func(body string) fakeAnswer {
		return fakeAnswer{status: 200, body: "<ListBucketResult>" + body + "</ListBucketResult>"}
	}
	s, f := storeOf(t, "http://h", "",
		page("<EncodingType>url</EncodingType><Contents><Key>a+b%2Fc</Key></Contents>"+
			"<NextContinuationToken>t/1</NextContinuationToken>"),
		page("<Contents><Key>a+b%2F</Key></Contents>"))
	names, err := s.list(t.Context(), "a")
	if err != nil || !slices.Equal(names, []string{"a b/c", "a+b%2F"}) {
		t.Errorf("%q, %v", names, err)
	}
	if !strings.Contains(f.got[1], "continuation-token=t%2F1") || !strings.Contains(f.got[1], "prefix=a") {
		t.Errorf("%q", f.got)
	}
}

// TestS3CompletionFails checks that the error in an answer with status 200 is an error, after which no part is left.
func TestS3CompletionFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := fakeAnswer{status: 200,
			body: "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"}
		failed := fakeAnswer{status: 200, body: "<Error><Code>InternalError</Code><Message>Oh</Message></Error>"}
		refused := fakeAnswer{status: 200, body: "<Error><Code>InvalidPart</Code><Message>Part</Message></Error>"}
		part := fakeAnswer{status: 200, header: http.Header{"Etag": {`"e"`}}}
		done := fakeAnswer{status: 200, body: "<CompleteMultipartUploadResult/>"}
		s, f := storeOf(t, "http://h", "", begun, part, part, failed, done)
		long := func(w io.Writer) error { _, err := w.Write(make([]byte, partBytes+1)); return err }
		assert.Equal(t, (&bucket{store: s}).upload(t.Context(), "x", long), nil)
		if f.got[2] != "PUT http://h/b/x?partNumber=2&uploadId=u" || f.got[4] != "POST http://h/b/x?uploadId=u" {
			t.Errorf("%q", f.got)
		}
		s, f = storeOf(t, "http://h", "", begun, part, part, refused, fakeAnswer{status: 204})
		var said *s3Error
		if err := (&bucket{store: s}).upload(t.Context(), "x", long); !errors.As(err, &said) || said.Code != "InvalidPart" {
			t.Error(err)
		}
		assert.Equal(t, f.got[len(f.got)-1], "DELETE http://h/b/x?uploadId=u", "%q", f.got)
	})
}
