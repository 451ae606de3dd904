// Package control answers the calls under /_emulator/, which are for tests and demos and do not
// exist on Azure.
package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/aks"
	"routekeeper.dev/routekeeper/internal/emulator/authorization"
	"routekeeper.dev/routekeeper/internal/emulator/entra"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// control answers the calls under /_emulator/, which are for tests and demos and do not exist on
// Azure.
type control struct {
	kernel        *kernel.Kernel
	aks           *aks.AKS
	authorization *authorization.Authorization
	entra         *entra.Entra
}

func New(k *kernel.Kernel, m *aks.AKS, a *authorization.Authorization, d *entra.Entra) *control {
	return &control{kernel: k, aks: m, authorization: a, entra: d}
}

// Answer answers a control call; docs/emulator.md lists them.
func (s *control) Answer(w http.ResponseWriter, c *kernel.Call) {
	answer, err := s.controlCall(c)
	status := http.StatusOK
	if err != nil {
		status, answer = http.StatusBadRequest, kernel.Object{"error": err.Error()}
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	// a client that closed the connection needs no answer
	_, _ = w.Write(append(kernel.Encode(answer), '\n'))
}

func (s *control) controlCall(c *kernel.Call) (any, error) {
	switch name := c.Method + " " + strings.ToLower(strings.Join(c.Path[1:], "/")); name {
	case "GET requests":
		return s.queryRequests(c)
	case "GET faults":
		return s.kernel.Faults.Injected(), nil
	case "POST faults":
		return post(c, func(f kernel.Fault) error {
			_, err := s.kernel.Faults.Inject(f)
			return err
		})
	case "DELETE faults":
		s.kernel.Faults.Clear()
		return done, nil
	case "POST scale":
		return post(c, func(p struct {
			Cluster arm.ID
			Pool    string
			Count   *int
		}) error {
			if p.Count == nil {
				return fmt.Errorf("count is missing")
			}
			return s.aks.Scale(p.Cluster, p.Pool, *p.Count)
		})
	case "POST readdress":
		return post(c, func(p struct {
			Cluster arm.ID
			Node    string
		}) error {
			return s.aks.Readdress(p.Cluster, p.Node)
		})
	case "POST routes":
		return post(c, func(p struct {
			Cluster arm.ID
			Paused  bool
		}) error {
			if !s.aks.PauseRoutes(p.Cluster, p.Paused) {
				return fmt.Errorf("no cluster %s", p.Cluster)
			}
			return nil
		})
	case "POST roles":
		return post(c, func(p struct {
			Assignment arm.ID
			Delay      string
		}) error {
			delay, err := time.ParseDuration(p.Delay)
			if err == nil && !s.authorization.DelayRole(p.Assignment, delay) {
				err = fmt.Errorf("no role assignment %s", p.Assignment)
			}
			return err
		})
	case "POST issuers":
		return post(c, func(p struct {
			Issuer string
			Keys   json.RawMessage
		}) error {
			return s.entra.RegisterIssuer(p.Issuer, kernel.Encode(kernel.Object{"keys": p.Keys}))
		})
	default:
		return nil, fmt.Errorf("no control call %s", name)
	}
}

// done answers a control call that has nothing to tell.
var done = kernel.Object{"ok": true}

// post reads a control call's body and does what it asks.
func post[T any](c *kernel.Call, do func(T) error) (any, error) {
	var p T
	d := json.NewDecoder(bytes.NewReader(c.Body))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("something follows the JSON object")
	}
	return done, do(p)
}

// queryRequests filters the request log.
func (s *control) queryRequests(c *kernel.Call) (any, error) {
	since := 0
	if text := c.Param("since"); text != "" {
		var err error
		if since, err = strconv.Atoi(text); err != nil {
			return nil, fmt.Errorf("since: %q is not a number", text)
		}
	}
	out := []kernel.Request{}
	for _, r := range s.kernel.Requests.Since(since) {
		if method := c.Param("method"); method != "" && !strings.EqualFold(method, r.Method) {
			continue
		}
		if principal := c.Param("principal"); principal != "" && principal != r.Principal {
			continue
		}
		out = append(out, r)
	}
	return out, nil
}
