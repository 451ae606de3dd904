package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

// The release and the namespace that docs/kubernetes.md installs.
const (
	chartRelease   = "routekeeper"
	chartNamespace = "routekeeper"
)

// readChart reads the chart of a source tree, with the version and the image of a release. image is
// "" for the chart as it is.
func readChart(source, version, image string, at time.Time) (*chart.Chart, error) {
	c, err := loader.LoadDir(filepath.Join(source, "charts", "routekeeper"))
	if err != nil {
		return nil, err
	}
	if version != "" {
		c.Metadata.Version, c.Metadata.AppVersion = version, version
	}
	c.ModTime, c.SchemaModTime = at, at
	for _, f := range slices.Concat(c.Raw, c.Templates, c.Files) {
		f.ModTime = at
		if f.Name != chartutil.ValuesfileName || image == "" {
			continue
		}
		before := []byte("  repository: \"\"\n")
		if bytes.Count(f.Data, before) != 1 {
			return nil, fmt.Errorf("%s: expected one line %q", f.Name, before)
		}
		f.Data = bytes.Replace(f.Data, before, []byte("  repository: "+image+"\n"), 1)
		if err := yaml.Unmarshal(f.Data, &c.Values); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// render renders a chart as helm template does: a document for each object, in Helm's order of
// kinds, without tests. tests are the objects of helm test, notes what helm install prints.
func render(c *chart.Chart, values map[string]any) (manifests, tests, notes string, err error) {
	if err := chartutil.ProcessDependencies(c, values); err != nil {
		return "", "", "", err
	}
	o := common.ReleaseOptions{Name: chartRelease, Namespace: chartNamespace, Revision: 1,
		IsInstall: true}
	top, err := util.ToRenderValues(c, values, o, nil)
	if err != nil {
		return "", "", "", err
	}
	files, err := engine.Render(c, top)
	if err != nil {
		return "", "", "", err
	}
	type document struct{ kind, name, text string }
	var all []document
	for name, text := range files {
		switch {
		case strings.HasSuffix(name, "NOTES.txt"):
			notes = text
			continue
		case strings.Contains(name, "/templates/tests/"):
			tests += text
			continue
		}
		for _, part := range strings.Split("\n"+text, "\n---\n") {
			var d struct {
				Kind     string
				Metadata struct{ Name string }
			}
			if err := yaml.Unmarshal([]byte(part), &d); err != nil {
				return "", "", "", fmt.Errorf("%s: %w\n%s", name, err, part)
			}
			if d.Kind != "" {
				all = append(all, document{d.Kind, d.Metadata.Name, strings.TrimSpace(part)})
			}
		}
	}
	slices.SortFunc(all, func(a, b document) int {
		if by := order(a.kind) - order(b.kind); by != 0 {
			return by
		}
		// The same name can be in several namespaces.
		return strings.Compare(a.kind+a.name+a.text, b.kind+b.name+b.text)
	})
	var out strings.Builder
	for _, d := range all {
		out.WriteString("---\n" + d.text + "\n")
	}
	return out.String(), tests, notes, nil
}

// order returns the order in which kinds are applied; other kinds come last.
func order(kind string) int {
	kinds := []string{"NetworkPolicy", "PodDisruptionBudget", "ServiceAccount", "ConfigMap",
		"CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
		"Service", "Deployment"}
	if i := slices.Index(kinds, kind); i >= 0 {
		return i
	}
	return len(kinds)
}

// placeholder stands in the plain manifests for the identity and its tenant.
const placeholder = "00000000-0000-0000-0000-000000000000"

// writeManifests writes the chart with its default values for kubectl apply.
func writeManifests(w io.Writer, c *chart.Chart) error {
	manifests, _, _, err := render(c, map[string]any{
		"azure": map[string]any{"clientID": placeholder, "tenantID": placeholder}})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w,
		`# routekeeper %s for Kubernetes: its Helm chart with the default values.
#
# Replace the value of AZURE_CLIENT_ID and client-id with the identity's client ID, and that of
# AZURE_TENANT_ID and tenant-id with its tenant. Then: kubectl apply --server-side -f routekeeper.yaml
---
apiVersion: v1
kind: Namespace
metadata:
  name: %s
%s`, c.Metadata.AppVersion, chartNamespace, manifests)
	return err
}
