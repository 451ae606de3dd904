package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing them")

// golden compares a file below testdata with what a test made, or writes it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := read(t, path); want != got {
		t.Errorf("%s is old: go -C release test -count=1 . -run Chart -update", path)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(raw), "\r\n", "\n")
}

// values reads the values of a variant.
func values(t *testing.T, path string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(read(t, path)), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestChart renders the chart with each file of values. internal/cli applies the results to a real
// API server.
func TestChart(t *testing.T) {
	paths, err := filepath.Glob("testdata/chart/*.values.yaml")
	if err != nil || len(paths) < 3 {
		t.Fatalf("%v, %v", paths, err)
	}
	for _, path := range paths {
		c, err := readChart("..", "", "", time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		manifests, tests, notes, err := render(c, values(t, path))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		base := strings.TrimSuffix(path, ".values.yaml")
		golden(t, base+".yaml", manifests)
		for _, doc := range strings.Split(manifests, "---\n") {
			if err := yaml.UnmarshalStrict([]byte(doc), &map[string]any{}); err != nil {
				t.Errorf("%s: %v in\n%s", path, err, doc)
			}
		}
		golden(t, base+".test.yaml", tests)
		if !strings.Contains(notes, "kubectl get clusterroutes") {
			t.Errorf("%s: the notes are %s", path, notes)
		}
	}
}

// TestChartCRD: what the chart installs is what routekeeper init schema prints, and it stays.
func TestChartCRD(t *testing.T) {
	var want map[string]any
	if err := yaml.Unmarshal([]byte(read(t, "../api/v1alpha1/clusterroutes.crd.yaml")),
		&want); err != nil {
		t.Fatal(err)
	}
	want["metadata"].(map[string]any)["annotations"] = map[string]any{
		"helm.sh/resource-policy": "keep"}
	for _, doc := range strings.Split(read(t, "testdata/chart/aks.yaml"), "---\n") {
		var got map[string]any
		if err := yaml.Unmarshal([]byte(doc), &got); err != nil {
			t.Fatal(err)
		}
		if got["kind"] == "CustomResourceDefinition" {
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%v\nwant\n%v", got, want)
			}
			return
		}
	}
	t.Error("the chart has no CustomResourceDefinition")
}

// TestChartRefuses: wrong values are refused by name.
func TestChartRefuses(t *testing.T) {
	for _, c := range []struct{ values, want string }{
		{`{}`, "image.repository: expected the repository"},
		{`{image: {repository: x}, azure: {clientID: a}}`, "/azure/clientID"},
		{`{image: {repository: x}, azure: {clientID: ` + placeholder + `}}`,
			"azure.clientID and azure.tenantID: expected both or neither"},
		{`{image: {repository: x}, azure: {clientID: ` + placeholder + `, tenantID: ` +
			placeholder +
			`, secretName: s}}`, "azure.clientID and azure.secretName exclude each other"},
		{`{image: {repository: x}, azure: {cloud: germany}}`, "/azure/cloud"},
		{`{image: {repository: x}, replica: 2}`, "additional properties 'replica'"},
		{`{image: {repository: x}, replicas: 0}`, "/replicas"},
		{`{image: {repository: x}, interval: 10}`, "/interval"},
		{`{image: {repository: x}, interval: 0s}`, "/interval"},
		{`{image: {repository: x}, lease: 2s}`, "/lease"},
		{`{image: {repository: x}, listen: {port: 18081}}`,
			"listen.port and healthPort: expected two ports"},
		{`{image: {repository: x}, extraEnv: {HTTPS_PROXY: x}}`, "/extraEnv"},
		{`{image: {repository: x}, commonLabels: {app.kubernetes.io/name: x}}`, "/commonLabels"},
		{`{image: {repository: x}, podLabels: {app.kubernetes.io/instance: x}}`, "/podLabels"},
		{`{image: {repository: x}, dashboard: {labels: {helm.sh/chart: x}}}`, "/dashboard/labels"},
		{`{image: {repository: x}, fullnameOverride: A}`, "/fullnameOverride"},
		{`{image: {repository: x}, watchNamespaces: [A]}`, "/watchNamespaces/0"},
		{`{image: {repository: x}, scopes: {a: [/subs]}}`, "/scopes/a"},
		{`{image: {repository: x}, listen: {tlsSecretName: s}}`,
			"listen.tlsSecretName needs listen.secretName"},
		{`{image: {repository: x}, serviceMonitor: {enabled: true}}`,
			"serviceMonitor.enabled needs listen.secretName"},
	} {
		chart, err := readChart("..", "", "", time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]any{}
		if err := yaml.Unmarshal([]byte(c.values), &values); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := render(chart, values); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.values, err, c.want)
		}
	}
}

// TestManifests: the plain manifests of a release have its version and its image.
func TestManifests(t *testing.T) {
	c, err := readChart("..", "1.2.3", "registry.example.com/a/b", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := writeManifests(&out, c); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"image: \"registry.example.com/a/b:1.2.3\"", "kind: Namespace",
		"helm.sh/chart: routekeeper-1.2.3", "kind: CustomResourceDefinition"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	}
}

// TestChartMonitoring: the objects of the Prometheus Operator have the fields of its Go types, and
// all alerts.
func TestChartMonitoring(t *testing.T) {
	rules, endpoints := 0, 0
	for _, doc := range strings.Split(read(t, "testdata/chart/everything.yaml"), "---\n") {
		switch {
		case strings.Contains(doc, "\nkind: ServiceMonitor\n"):
			var m monitoring.ServiceMonitor
			if err := yaml.UnmarshalStrict([]byte(doc), &m); err != nil {
				t.Error(err)
			}
			endpoints += len(m.Spec.Endpoints)
		case strings.Contains(doc, "\nkind: PrometheusRule\n"):
			var r monitoring.PrometheusRule
			if err := yaml.UnmarshalStrict([]byte(doc), &r); err != nil {
				t.Error(err)
			}
			rules += len(r.Spec.Groups[0].Rules)
		}
	}
	want := strings.Count(read(t, "../deploy/prometheus/routekeeper.rules.yaml"), "- alert:")
	if endpoints != 1 || rules != want {
		t.Errorf("%d endpoints, %d rules, want 1 and %d", endpoints, rules, want)
	}
}
