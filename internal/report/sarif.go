package report

import (
	"cmp"
	"net/url"
	"path/filepath"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
)

// object is a JSON object of SARIF 2.1.0 (docs.oasis-open.org/sarif/sarif/v2.1.0), as GitHub and
// Azure DevOps read it.
type object = map[string]any

var sarifLevels = map[finding.Severity]string{finding.Error: "error", finding.Warning: "warning",
	finding.Info: "note"}

// sarifOf makes the log. It puts a finding without a place on the first line of the first checked
// file, because code scanning shows no finding without a place.
func sarifOf(findings []finding.Finding, files []CheckedFile, version string) object {
	first := ""
	if len(files) > 0 {
		first = files[0].Name
	}
	rules, results := []object{}, []object{}
	indexes := map[finding.Code]int{}
	for _, f := range findings {
		index, known := indexes[f.Code]
		if !known {
			index = len(rules)
			indexes[f.Code] = index
			rules = append(rules, sarifRule(finding.Describe(f.Code)))
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
		place := object{"physicalLocation": object{
			"artifactLocation": object{"uri": uri(cmp.Or(f.File, first))},
			"region":           object{"startLine": max(1, f.Line)},
		}}
		if f.Subject != "" {
			place["logicalLocations"] = []object{{"fullyQualifiedName": f.Subject}}
		}
		key := strings.ReplaceAll(f.Key(), "\x00", "|")
		results = append(results, object{
			"ruleId": f.Code, "ruleIndex": index, "level": sarifLevels[f.Severity],
			"message": object{"text": text}, "locations": []object{place},
			"partialFingerprints": object{"routekeeper/v1": key},
		})
	}
	driver := object{"name": "routekeeper", "rules": rules}
	if version != "" {
		driver["version"] = version
	}
	return object{"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []object{{"tool": object{"driver": driver}, "results": results}}}
}

func sarifRule(d finding.Description) object {
	rule := object{
		"id": d.Code, "shortDescription": object{"text": d.Title},
		"fullDescription": object{"text": d.Meaning}, "help": object{"text": d.Remedy},
		"defaultConfiguration": object{"level": sarifLevels[d.Severity]},
	}
	if d.Page != "" {
		rule["helpUri"] = d.Page
	}
	return rule
}

// uri writes a path as a relative reference (RFC 3986). Its first segment must have no colon.
func uri(path string) string {
	escaped := (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()
	return strings.ReplaceAll(escaped, ":", "%3A")
}
