package main

import (
	"bytes"
	"cmp"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// sbom lists the modules that a program was built from for a platform, as CycloneDX. more are the
// other parts of an image.
func (r *release) sbom(of program, platform string, more []cdx.Component) ([]byte, error) {
	info, err := r.built(of, platform)
	if err != nil {
		return nil, err
	}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	parts := []cdx.Component{component("std", goVersion)}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, component(m.Path, m.Version))
	}
	parts = append(parts, more...)
	program := component("routekeeper.dev/routekeeper", r.tag)
	program.Name = of.name
	program.Type = cdx.ComponentTypeApplication
	program.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}
	program.Properties = &[]cdx.Property{{Name: "go:platform", Value: platform},
		{Name: "vcs:revision", Value: r.commit}}
	needs := make([]string, len(parts))
	for i, p := range parts {
		needs[i] = p.BOMRef
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.date.Format(time.RFC3339), Component: &program}
	bom.Components = &parts
	// A program does not record which module needs which, so all are listed as its own
	// dependencies.
	bom.Dependencies = &[]cdx.Dependency{{Ref: program.BOMRef, Dependencies: &needs}}
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom,
		cdx.SpecVersion1_6); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// component returns a Go module of a program.
func component(path, version string) cdx.Component {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: url, Name: path,
		Version: cmp.Or(version, "unknown"), PackageURL: url}
}
