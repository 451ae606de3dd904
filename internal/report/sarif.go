package report

import (
	"path/filepath"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
)

// The subset of SARIF 2.1.0 that is written (docs.oasis-open.org/sarif/sarif/v2.1.0), as GitHub and
// Azure DevOps read it.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool     `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID      string      `json:"id"`
		Short   sarifText   `json:"shortDescription"`
		Full    sarifText   `json:"fullDescription"`
		Help    sarifText   `json:"help"`
		HelpURI string      `json:"helpUri,omitempty"`
		Default sarifConfig `json:"defaultConfiguration"`
	}
	sarifConfig struct {
		Level string `json:"level"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID       string            `json:"ruleId"`
		RuleIndex    int               `json:"ruleIndex"`
		Level        string            `json:"level"`
		Message      sarifText         `json:"message"`
		Locations    []sarifLocation   `json:"locations"`
		Fingerprints map[string]string `json:"partialFingerprints"`
	}
	sarifLocation struct {
		Physical sarifPhysical  `json:"physicalLocation"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine int `json:"startLine"`
	}
	sarifLogical struct {
		FullyQualifiedName string `json:"fullyQualifiedName"`
	}
)

var sarifLevels = map[finding.Severity]string{finding.Error: "error", finding.Warning: "warning",
	finding.Info: "note"}

// sarifOf makes the log. It puts a finding without a place on the first line of the first checked
// file, because code scanning shows no finding without a place.
func sarifOf(findings []finding.Finding, files []CheckedFile, version string) sarifLog {
	run := sarifRun{Tool: sarifTool{sarifDriver{Name: "routekeeper", Version: version,
		Rules: []sarifRule{}}}, Results: []sarifResult{}}
	rules := map[finding.Code]int{}
	for _, f := range findings {
		index, known := rules[f.Code]
		if !known {
			index = len(run.Tool.Driver.Rules)
			rules[f.Code] = index
			d := finding.Describe(f.Code)
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{
				ID: string(f.Code), Short: sarifText{d.Title}, Full: sarifText{
					d.Meaning}, Help: sarifText{d.Remedy}, HelpURI: d.Page,
				Default: sarifConfig{sarifLevels[d.Severity]},
			})
		}
		text := UpperFirst(plain(f.Message)) + "."
		for _, line := range f.Evidence {
			text += "\n" + plain(line)
		}
		if f.Advice != "" {
			text += "\nRepair: " + plain(f.Advice)
		}
		if f.Fix != "" {
			text += "\nRepair: " + plain(f.Fix)
		}
		place := sarifLocation{Physical: sarifPhysical{Artifact: sarifArtifact{uri(f.File)},
			Region: sarifRegion{max(1, f.Line)}}}
		if f.File == "" && len(files) > 0 {
			place.Physical.Artifact.URI = uri(files[0].Name)
		}
		if f.Subject != "" {
			place.Logical = []sarifLogical{{FullyQualifiedName: f.Subject}}
		}
		run.Results = append(run.Results, sarifResult{
			RuleID: string(f.Code), RuleIndex: index, Level: sarifLevels[f.Severity],
			Message: sarifText{text}, Locations: []sarifLocation{place},
			Fingerprints: map[string]string{"routekeeper/v1": strings.ReplaceAll(f.Key(), "\x00",
				"|")},
		})
	}
	return sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0",
		Runs: []sarifRun{run}}
}

// uri writes a path as a relative reference (RFC 3986).
func uri(path string) string {
	const plainInPaths = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/!$&'()*+,;=@"
	var b strings.Builder
	for _, c := range []byte(filepath.ToSlash(path)) {
		if strings.IndexByte(plainInPaths, c) >= 0 {
			b.WriteByte(c)
		} else {
			const hex = "0123456789ABCDEF"
			b.WriteString("%" + string(hex[c>>4]) + string(hex[c&15]))
		}
	}
	return b.String()
}
