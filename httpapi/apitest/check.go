package apitest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

const problemType = "application/problem+json"

// problem is the body of every refusal.
type problem struct {
	Type      string `json:"type"`
	Status    int    `json:"status"`
	Field     string `json:"field"`
	Committed string `json:"committed"`
}

// Check compares an answer with the document. Its error describes the fault.
func (a *API) Check(r Request, request *http.Request, status int, header http.Header, body []byte) error {
	if status == http.StatusInternalServerError {
		return fmt.Errorf("500: %s", body)
	}
	if status >= 400 {
		if err := checkProblem(r, status, header, body); err != nil {
			return err
		}
	}
	route, parameters, err := a.router.FindRoute(request)
	if err != nil {
		if status < 400 && r.Method != http.MethodHead && r.Method != http.MethodOptions {
			return fmt.Errorf("a route that is not documented answers %d", status)
		}
		return nil
	}
	return a.checkDocumented(r, request, route, parameters, status, header, body)
}

func (a *API) checkDocumented(
	r Request, request *http.Request, route *routers.Route, parameters map[string]string,
	status int, header http.Header, body []byte,
) error {
	if request.Method == http.MethodHead {
		return nil
	}
	kind := header.Get("Content-Type")
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: request, PathParams: parameters, Route: route,
		},
		Status: status, Header: header,
		Options: &openapi3filter.Options{
			IncludeResponseStatus: true,
			ExcludeResponseBody:   !strings.Contains(kind, "json") || strings.Contains(kind, "ndjson"),
		},
	}
	input.SetBodyBytes(body)
	err := openapi3filter.ValidateResponse(context.Background(), input)
	if err != nil && !errors.Is(err, strconv.ErrRange) { // out of range for the validator only
		return fmt.Errorf("%d %s: %w", status, body, err)
	}
	if strings.Contains(kind, "ndjson") {
		return checkLines(body)
	}
	return nil
}

func checkLines(body []byte) error {
	for line := range bytes.Lines(body) {
		if !json.Valid(line) {
			return fmt.Errorf("a line of the answer is not JSON: %q", line)
		}
	}
	return nil
}

// passing lists the statuses of refusals that must have a Retry-After.
var passing = []int{http.StatusTooManyRequests, http.StatusServiceUnavailable}

func checkProblem(r Request, status int, header http.Header, body []byte) error {
	if r.Method == http.MethodHead {
		return nil
	}
	if got := header.Get("Content-Type"); got != problemType {
		return fmt.Errorf("%d is %q, not %s: %s", status, got, problemType, body)
	}
	var p problem
	if err := json.Unmarshal(body, &p); err != nil {
		return fmt.Errorf("%d: %w: %s", status, err, body)
	}
	switch {
	case p.Status != status:
		return fmt.Errorf("%d says that it is %d: %s", status, p.Status, body)
	case strings.HasSuffix(p.Type, ":invalid-field") && p.Field == "":
		return fmt.Errorf("%d names no field: %s", status, body)
	case slices.Contains(passing, status) && header.Get("Retry-After") == "":
		return errors.New("no Retry-After")
	}
	return nil
}
