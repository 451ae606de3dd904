package keeper

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// joinless refuses the writes of subnets that name a resource of some types, as Azure does without
// the right to join it.
type joinless struct {
	http.RoundTripper
	types []string
}

func (j joinless) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/subnets/") {
		return j.RoundTripper.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if !slices.ContainsFunc(j.types, func(name string) bool {
		return bytes.Contains(body, []byte(name))
	}) {
		return j.RoundTripper.RoundTrip(r)
	}
	return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{}, Request: r,
		Body: io.NopCloser(strings.NewReader(
			`{"error":{"code":"LinkedAuthorizationFailed","message":"no right to join"}}`))}, nil
}

// TestGuardOneCannot: what a subnet cannot get back, such as a NAT gateway that was deleted or may
// not be joined, holds back nothing else that it lost. The finding is about it alone.
func TestGuardOneCannot(t *testing.T) {
	for name, c := range map[string]struct {
		joinless []string
		cannot   []inventory.Property
		says     string
	}{
		"deleted": {nil, []inventory.Property{inventory.PropertyNAT}, "InvalidResourceReference"},
		"no right to join": {[]string{"/natGateways/"},
			[]inventory.Property{inventory.PropertyNAT}, "LinkedAuthorizationFailed"},
		"no right to join two": {[]string{"/natGateways/", "/networkSecurityGroups/"},
			[]inventory.Property{inventory.PropertyNAT, inventory.PropertyGroup},
			"LinkedAuthorizationFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := emptyWorld(t, slow)
				g := w.addGuarded("overlay", "")
				g.config.Spec.Guard.SecurityGroups = v1alpha1.GuardEnforce
				k := w.keepOver(func(rt http.RoundTripper) http.RoundTripper {
					return joinless{rt, c.joinless}
				}, g.config)
				w.reconcile(k)
				w.stripNetwork(g)
				if c.joinless == nil {
					w.remove(g.nat)
				}
				r, says := w.reconcile(k), map[string]bool{}
				for _, o := range r.Changes {
					property, _ := o.New.Associated()
					if (o.State == plan.Done) == slices.Contains(c.cannot, property) {
						t.Errorf("%s of %s: %s %s", property, o.Resource.Short(), o.State, o.Error)
					}
				}
				for _, f := range r.Findings {
					if f.Code == finding.WriteFailed || f.Code == finding.WriteRefused {
						says[f.Key()] = true
						property := inventory.Property(f.Subject)
						if !strings.Contains(f.Message, "has lost its "+property.Name()) ||
							!slices.Contains(c.cannot, property) ||
							!strings.Contains(f.Message, c.says) {
							t.Errorf("finding about %s: %s", f.Subject, f.Message)
						}
					}
				}
				if len(says) != 2*len(c.cannot) {
					t.Errorf("%d findings: %+v", len(says), r.Findings)
				}
				time.Sleep(2 * time.Minute) // once the others are back, the same findings say so
				for _, f := range w.reconcile(k).Findings {
					if (f.Code == finding.WriteFailed || f.Code == finding.WriteRefused) &&
						!says[f.Key()] {
						t.Errorf("another finding: %s", f.Key())
					}
				}
				puts := w.mark()
				for range 60 {
					time.Sleep(10 * time.Second)
					w.reconcile(k)
				}
				n := 0
				for _, call := range puts() {
					if call.Method == http.MethodPut {
						n++
					}
				}
				if n > 24 {
					t.Errorf("%d writes in 10 minutes", n)
				}
			})
		})
	}
}
