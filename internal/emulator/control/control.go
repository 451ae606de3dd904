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
	done := kernel.Object{"ok": true}
	switch name := c.Method + " " + strings.ToLower(strings.Join(c.Path[1:], "/")); name {
	case "GET requests":
		return s.queryRequests(c)
	case "GET faults":
		return s.kernel.Faults.Injected(), nil
	case "POST faults":
		var f kernel.Fault
		if err := strict(c.Body, &f); err != nil {
			return nil, err
		}
		_, err := s.kernel.Faults.Inject(f)
		return done, err
	case "DELETE faults":
		s.kernel.Faults.Clear()
		return done, nil
	case "POST scale":
		var p struct {
			Cluster arm.ID
			Pool    string
			Count   *int
		}
		if err := strict(c.Body, &p); err != nil {
			return nil, err
		}
		if p.Count == nil {
			return nil, fmt.Errorf("count is missing")
		}
		return done, s.aks.Scale(p.Cluster, p.Pool, *p.Count)
	case "POST readdress":
		var p struct {
			Cluster arm.ID
			Node    string
		}
		if err := strict(c.Body, &p); err != nil {
			return nil, err
		}
		return done, s.aks.Readdress(p.Cluster, p.Node)
	case "POST routes":
		var p struct {
			Cluster arm.ID
			Paused  bool
		}
		if err := strict(c.Body, &p); err != nil {
			return nil, err
		}
		if !s.aks.PauseRoutes(p.Cluster, p.Paused) {
			return nil, fmt.Errorf("no cluster %s", p.Cluster)
		}
		return done, nil
	case "POST roles":
		var p struct {
			Assignment arm.ID
			Delay      string
		}
		if err := strict(c.Body, &p); err != nil {
			return nil, err
		}
		delay, err := time.ParseDuration(p.Delay)
		if err == nil && !s.authorization.DelayRole(p.Assignment, delay) {
			err = fmt.Errorf("no role assignment %s", p.Assignment)
		}
		return done, err
	case "POST issuers":
		var p struct {
			Issuer string
			Keys   json.RawMessage
		}
		if err := strict(c.Body, &p); err != nil {
			return nil, err
		}
		return done, s.entra.RegisterIssuer(p.Issuer, kernel.Encode(kernel.Object{"keys": p.Keys}))
	default:
		return nil, fmt.Errorf("no control call %s", name)
	}
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

// strict reads a control call's body.
func strict(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return fmt.Errorf("something follows the JSON object")
	}
	return nil
}
