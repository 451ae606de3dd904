// Package generate writes infrastructure code: clusters, a keeper's compute and rights, Azure
// Monitor's rules, and policies. It writes Terraform for two major versions of the azurerm
// provider, Bicep, and, except for rules, ARM JSON.
//
// It is pure: text in, files out. It must not decide what a cluster consists of (package build
// does). Tests compare its output with what cluster create writes and with the documented schema of
// the provider, and deploy it to the emulator.
package generate

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"text/template"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/mitchellh/go-wordwrap"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/lazy"
	"routekeeper.dev/routekeeper/internal/prevent"
)

// Output is a file to write; slashes in its name are folders.
type Output struct {
	Name string
	Text []byte
}

//go:embed arm bicep terraform
var templates embed.FS

// write fills in the templates of files in a folder.
func write(folder string, names []string, data any) ([]Output, error) {
	all, err := template.New("").Funcs(template.FuncMap{
		"hcl": hclString, "bicep": bicepString, "wrap": wrap, "pool": poolOf,
		"json": func(v any) string { return jsonText(v, false) }, "comment": comment,
		"resourceID": resourceID,
		"snake":      func(name string) string { return strings.ReplaceAll(name, "-", "_") },
		"rule":       func(r prevent.Rule) string { return jsonText(policyRule(r), true) },
		"parameters": func(r prevent.Rule) string { return jsonText(declared(r), true) },
		"arguments":  func(a prevent.Assignment) string { return jsonText(arguments(a), true) },
	}).ParseFS(templates, folder+"/*.tmpl")
	if err != nil {
		return nil, err
	}
	var files []Output
	for _, name := range names {
		var text bytes.Buffer
		if err := all.ExecuteTemplate(&text, path.Base(name)+".tmpl", data); err != nil {
			return nil, err
		}
		switch form, _, _ := strings.Cut(folder, "/"); form {
		case "terraform":
			text = *bytes.NewBuffer(hclwrite.Format(text.Bytes()))
		case "arm":
			var indented bytes.Buffer
			if err := json.Indent(&indented, text.Bytes(), "", "  "); err != nil {
				return nil, err
			}
			text = indented
		}
		files = append(files, Output{name, text.Bytes()})
	}
	return files, nil
}

var (
	nameShape     = lazy.Regexp(`^[a-z]([a-z0-9-]{0,28}[a-z0-9])?$`)
	locationShape = lazy.Regexp(`^[a-z][a-z0-9]{2,29}$`)
)

func unknownProvider(version int) error {
	return fmt.Errorf("version %d of the azurerm provider is not known, expected 4 or 5", version)
}

// hclString quotes a string for HCL, where ${ and %{ begin expressions.
func hclString(s any) string {
	return `"` + hclLiteral(fmt.Sprint(s), `\`, `\\`, `"`, `\"`, "\n", `\n`) + `"`
}

// hclLiteral returns a text inside a string or a heredoc of HCL.
func hclLiteral(s string, more ...string) string {
	return strings.NewReplacer(append(more, "${", "$${", "%{", "%%{")...).Replace(s)
}

// bicepString quotes a string for Bicep.
func bicepString(s any) string {
	quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "${",
		`\${`).Replace(fmt.Sprint(s))
	return "'" + quoted + "'"
}

// resourceID returns the expression of a resource in a resource group.
func resourceID(id arm.ID) string {
	return fmt.Sprintf("resourceId(%s, %s, '%s', %s)", armString(id.Subscription()),
		armString(id.ResourceGroup()), id.Type(), armString(id.Name()))
}

// wrap breaks a sentence into comment lines.
func wrap(prefix, text string) string {
	prefix += " "
	return prefix + strings.ReplaceAll(wordwrap.WrapString(text, uint(100-len(prefix))), "\n",
		"\n"+prefix)
}
