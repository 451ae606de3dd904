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
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
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
	for name, text := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			notes = text
			delete(files, name)
		}
	}
	hooks, all, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return "", "", "", err
	}
	for _, h := range hooks {
		tests += h.Manifest
	}
	var out strings.Builder
	for _, m := range all {
		if m.Head.Kind != "" {
			out.WriteString("---\n" + strings.TrimSpace(m.Content) + "\n")
		}
	}
	return out.String(), tests, notes, nil
}

// placeholder is in the plain manifests in place of the identity and its tenant.
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
