package report

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/trace"
)

// helloWith is a demo with so many pods, one per node, in which the calls to the last one are lost
// for the given reason.
func helloWith(pods int, verdict trace.Verdict, why string) Hello {
	h := Hello{Cluster: "shop"}
	for i := range pods {
		h.Pods = append(h.Pods, HelloPod{Name: fmt.Sprintf("p%d", i), Node: fmt.Sprintf("n%d", i),
			Ready:   true,
			Address: netip.AddrFrom4([4]byte{10, 244, byte(i), 2})})
	}
	for i, from := range h.Pods {
		for k, to := range h.Pods {
			c := HelloCall{From: from.Name, To: to.Name, Address: to.Address, Arrived: true,
				Result: "answered", Millis: 1.26, Traced: trace.Delivered,
				Routes: []string{fmt.Sprintf("to n%d", k)}, AnswerRoutes: []string{
					fmt.Sprintf("to n%d", i)}}
			switch {
			case i == k:
				continue
			case k == pods-1 && why != "":
				c.Arrived, c.Result, c.Traced, c.Why = false, "timeout: no answer within 2s",
					verdict, why
			default:
				h.Arrived++
			}
			h.Calls = append(h.Calls, c)
		}
	}
	return h
}

func helloText(t *testing.T, h Hello) string {
	t.Helper()
	var b strings.Builder
	if err := h.Write(&b, Text, Style{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestHello writes complete matrices, and matrices with lost calls.
func TestHello(t *testing.T) {
	whole := helloWith(3, "", "")
	text := helloText(t, whole)
	for _, part := range []string{
		"The demo on shop: all 6 calls arrive.\n", "1  p0   n0    10.244.0.2\n",
		"Row calls column\nms  1    2    3\n1   -    1.3  1.3\n",
		"\nRoutes used\n  to n0  2 calls  2 answers\n",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	if !whole.Whole() || strings.Contains(text, "lost") {
		t.Errorf("it is whole:\n%s", text)
	}

	holes := helloWith(3, trace.Dropped, "there is no route to 10.244.2.2")
	holes.Unknown = []string{"subnet net/x: no machine"}
	text = helloText(t, holes)
	for _, part := range []string{
		"4 of 6 calls arrive.\n", "1   -    1.3  lost\n", "\nlost 2 calls: there is no route to " +
			"the called address\n  such as p0 to p2 (10.244.2.2): timeout: no answer within 2s\n",
		"  no finding of routekeeper doctor explains this\n", "not known: subnet net/x: no " +
			"machine\n",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	if holes.Whole() {
		t.Error("holes are whole")
	}
	holes.Findings = []finding.Finding{finding.New(finding.NodeWithoutRoute, "shop", "",
		"node n2 has no route")}
	if text = helloText(t, holes); strings.Contains(text, "no finding") ||
		!strings.Contains(text, "error node-without-route (shop): node n2 has no route\n") {
		t.Errorf("with a finding:\n%s", text)
	}

	// Lost calls that the routes and rules in Azure do not explain.
	if text = helloText(t,
		helloWith(2, trace.Delivered, "the pod is on this node")); !strings.Contains(
		text, "lost 1 call: according to the routes and rules in Azure the packet arrives: check "+
			"network policies") {
		t.Errorf("delivered, and lost:\n%s", text)
	}
	// Many pods get no matrix on a terminal. With a waiting pod the demo is not complete.
	many := helloWith(maxGrid+1, "", "")
	if text = helloText(t, many); strings.Contains(text, "Row calls column") ||
		!strings.Contains(text, "all 210 calls arrive") {
		t.Errorf("many:\n%s", text)
	}
	many.Pods[3].Ready, many.Pods[3].Why = false, "ImagePullBackOff: \x1b[31m"
	if text = helloText(t, many); many.Whole() || !strings.Contains(text, "ImagePullBackOff: ") ||
		strings.Contains(text, "\x1b") {
		t.Errorf("a pod waits:\n%s", text)
	}
}

// TestHelloJSON writes empty lists instead of null.
func TestHelloJSON(t *testing.T) {
	var b strings.Builder
	if err := helloWith(1, "", "").Write(&b, JSON, Style{}); err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(b.String()), &doc); err != nil || doc["findings"] == nil ||
		doc["unknown"] == nil || doc["calls"] == nil || strings.Count(b.String(), "\n") != 1 {
		t.Errorf("%v %s", err, b.String())
	}
}
