package iac

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"routekeeper.dev/routekeeper/internal/finding"
)

// Source is the configuration in a folder of .tf files, with the modules that it calls by local
// path.
type Source struct {
	modules []*sourceModule
	files   int
	bytes   int
	// steps counts what was evaluated; chained are the locals and variables that are being
	// evaluated.
	steps, chained int
}

// sourceModule is one call of a module.
type sourceModule struct {
	way         string // how it is called from the root: module.net.module.inner, "" for the root
	dir         string
	resources   []*sourceResource
	calls       []*hclsyntax.Block
	removed     []*hclsyntax.Block
	unseenCalls []*hclsyntax.Block // calls of modules whose code is not here
	files       map[string][]byte  // the content, by name
	// versions are the constraints on the azurerm provider, locked the version in the lock file.
	versions, locked []string
	// outputs and locals are expressions by name; whole is the configuration that contains the
	// module.
	outputs, locals map[string]hclsyntax.Expression
	whole           *Source
	// variables are its variables, tfvars the values that terraform.tfvars and *.auto.tfvars give
	// them.
	variables map[string]*hclsyntax.Body
	tfvars    map[string]hclsyntax.Expression
	values    map[string]cty.Value // of variables and locals that were evaluated
}

// sourceResource is a resource block.
type sourceResource struct {
	*hclsyntax.Block
	kind, name string
	place      Place
	module     *sourceModule
}

// literal returns the text of an attribute, "" if the code does not show it.
func (r *sourceResource) literal(name string) string { return r.module.literal(r.Body, name) }

// maxModules limits the calls of modules that are followed: a module may call itself.
const maxModules = 1000

// mostCode limits the code in bytes: modules can call others several times.
const mostCode = 64 << 20

// ReadSource reads the .tf files of a folder, and of the modules that they call by local path. A
// file that is not HCL is an error.
func ReadSource(files fs.FS, dir string) (*Source, error) {
	s := &Source{}
	return s, s.module(files, path.Clean(dir), "")
}

func (s *Source) module(files fs.FS, dir, way string) error {
	if len(s.modules) == maxModules {
		return fmt.Errorf("%s: more than %d modules are called: one of them calls itself",
			finding.Show(dir), maxModules)
	}
	names, err := codeIn(files, dir)
	if err != nil {
		return err
	}
	m := &sourceModule{way: way, dir: dir, whole: s}
	s.modules = append(s.modules, m)
	for _, name := range names {
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if s.bytes += len(raw); s.bytes > mostCode {
			return fmt.Errorf("%s: the code of the folder and its modules is larger than %d MiB",
				finding.Show(name), mostCode>>20)
		}
		if err := m.parse(name, raw); err != nil {
			return err
		}
		s.files++
	}
	if way == "" {
		if err := m.settings(files); err != nil {
			return err
		}
	}
	for _, call := range m.calls {
		source := literal(call.Body, "source")
		local := strings.HasPrefix(source, "./") || strings.HasPrefix(source, "../")
		inner := path.Join(dir, source)
		if !local || !fs.ValidPath(inner) {
			m.unseenCalls = append(m.unseenCalls, call)
			continue
		}
		if err := s.module(files, inner,
			strings.TrimPrefix(way+".module."+call.Labels[0], ".")); err != nil {
			return err
		}
	}
	return nil
}

// SyntaxError says which file is not HCL, and where; Line is 0 if it is unknown.
type SyntaxError struct {
	File    string
	Line    int
	Summary string
}

func (e *SyntaxError) Error() string {
	at := finding.Show(e.File)
	if e.Line != 0 {
		at = fmt.Sprintf("%s:%d", at, e.Line)
	}
	return fmt.Sprintf("%s: it is not valid HCL: %s", at, e.Summary)
}

// settings reads the values that a configuration has outside its code: variables in
// terraform.tfvars and *.auto.tfvars, and the version of azurerm in the lock file.
func (m *sourceModule) settings(files fs.FS) error {
	names, err := fs.Glob(files, path.Join(m.dir, "*.auto.tfvars"))
	if err != nil {
		return err
	}
	m.tfvars = map[string]hclsyntax.Expression{}
	for _, name := range append([]string{path.Join(m.dir, "terraform.tfvars")}, names...) {
		body, err := settingsIn(files, name)
		if err != nil {
			return err
		}
		for name, a := range body.Attributes {
			m.tfvars[name] = a.Expr
		}
	}
	lock, err := settingsIn(files, path.Join(m.dir, ".terraform.lock.hcl"))
	if err != nil {
		return err
	}
	for _, b := range lock.Blocks {
		if b.Type == "provider" && len(b.Labels) == 1 && path.Base(b.Labels[0]) == "azurerm" {
			m.locked = []string{literal(b.Body, "version")}
		}
	}
	m.versions = append(m.versions, m.locked...)
	return nil
}

// settingsIn reads a file of settings; it is empty if there is none.
func settingsIn(files fs.FS, name string) (*hclsyntax.Body, error) {
	raw, err := fs.ReadFile(files, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &hclsyntax.Body{}, nil
	case err != nil:
		return nil, err
	}
	return parseHCL(name, raw)
}

// codeIn returns the files of a module: .tf files, and OpenTofu's .tofu files, which replace a .tf
// file with the same name.
func codeIn(files fs.FS, dir string) ([]string, error) {
	tofu, err := fs.Glob(files, path.Join(dir, "*.tofu"))
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(files, path.Join(dir, "*.tf"))
	names = slices.DeleteFunc(names, func(name string) bool {
		return slices.Contains(tofu, strings.TrimSuffix(name, ".tf")+".tofu")
	})
	return append(names, tofu...), err
}

// isCode reports whether a file's name is Terraform's or OpenTofu's.
func isCode(name string) bool {
	return strings.HasSuffix(name, ".tf") || strings.HasSuffix(name, ".tofu")
}

func parseHCL(name string, raw []byte) (*hclsyntax.Body, error) {
	if err := checkHCL(name, raw); err != nil {
		return nil, err
	}
	file, diagnostics := hclsyntax.ParseConfig(raw, name, hcl.InitialPos)
	if diagnostics.HasErrors() {
		d := diagnostics.Errs()[0].(*hcl.Diagnostic)
		bad := &SyntaxError{File: name, Summary: d.Summary}
		if d.Subject != nil {
			bad.Line = d.Subject.Start.Line
		}
		return nil, bad
	}
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok {
		return nil, &SyntaxError{File: name, Summary: "it has no body"}
	}
	return body, nil
}

// parse reads a file into the module.
func (m *sourceModule) parse(name string, raw []byte) error {
	body, err := parseHCL(name, raw)
	if err != nil {
		return err
	}
	if m.files == nil {
		m.files, m.outputs, m.locals = map[string][]byte{}, map[string]hclsyntax.Expression{},
			map[string]hclsyntax.Expression{}
		m.variables = map[string]*hclsyntax.Body{}
	}
	m.files[name] = raw
	for _, b := range body.Blocks {
		switch {
		case (b.Type == "resource" || b.Type == "data") && len(b.Labels) == 2:
			r := &sourceResource{Block: b, kind: b.Labels[0], name: b.Labels[1], module: m}
			if b.Type == "data" {
				r.kind = "data." + r.kind
			}
			r.place = Place{Address: strings.TrimPrefix(m.way+"."+r.kind+"."+r.name, "."),
				File: name, Line: b.TypeRange.Start.Line}
			m.resources = append(m.resources, r)
		case b.Type == "removed":
			m.removed = append(m.removed, b)
		case b.Type == "variable" && len(b.Labels) == 1:
			m.variables[b.Labels[0]] = b.Body
		case b.Type == "module" && len(b.Labels) == 1:
			m.calls = append(m.calls, b)
		case b.Type == "output" && len(b.Labels) == 1 && b.Body.Attributes["value"] != nil:
			m.outputs[b.Labels[0]] = b.Body.Attributes["value"].Expr
		case b.Type == "locals":
			for name, a := range b.Body.Attributes {
				m.locals[name] = a.Expr
			}
		case b.Type == "terraform":
			m.versions = append(m.versions, versionsIn(b.Body)...)
		}
	}
	return nil
}

// versionsIn returns the version constraints on azurerm of a terraform block.
func versionsIn(body *hclsyntax.Body) []string {
	var out []string
	for _, b := range body.Blocks {
		if a := b.Body.Attributes["azurerm"]; b.Type == "required_providers" && a != nil {
			if v, diagnostics := a.Expr.Value(nil); !diagnostics.HasErrors() && v.IsKnown() &&
				!v.IsNull() {
				switch {
				case v.Type() == cty.String:
					out = append(out, v.AsString())
				case v.Type().IsObjectType() && v.Type().HasAttribute("version"):
					if version := v.GetAttr("version"); version.Type() == cty.String &&
						!version.IsNull() {
						out = append(out, version.AsString())
					}
				}
			}
		}
	}
	return out
}

// literal returns the text of an attribute, "" if the code alone does not show it.
func literal(body *hclsyntax.Body, name string) string {
	a := body.Attributes[name]
	if a == nil {
		return ""
	}
	return text(a.Expr)
}

func text(expr hclsyntax.Expression) string {
	v, diagnostics := expr.Value(nil)
	if diagnostics.HasErrors() || v.IsNull() || !v.IsKnown() || v.Type() != cty.String {
		return ""
	}
	return v.AsString()
}

// resource returns the resource with an address, with or without instance keys; nil for none.
func (s *Source) resource(address string) *sourceResource {
	address = withoutKeys(address)
	for _, m := range s.modules {
		for _, r := range m.resources {
			if r.place.Address == address {
				return r
			}
		}
	}
	return nil
}

// Locate adds file and line to every resource of the configuration. For a subnet in the code of its
// network it adds the subnet's place.
func (r *Reading) Locate(s *Source) {
	r.places(func(p *Place) {
		if found := s.resource(p.Address); found != nil && p.File == "" {
			p.File, p.Line = found.place.File, found.place.Line
		}
	})
	for i := range r.Effects {
		e := &r.Effects[i]
		found := s.resource(e.By.Address)
		if found == nil || found.kind != tfVNet || e.By.File != found.place.File {
			continue
		}
		for _, code := range found.inlineCode() {
			if code.name != "" && strings.EqualFold(code.name, e.What.Name) {
				e.By.Line = code.line
			}
		}
	}
}

// Rename changes the names of the files.
func (r *Reading) Rename(name func(string) string) {
	r.places(func(p *Place) {
		if p.File != "" {
			p.File = name(p.File)
		}
	})
}

// places visits every place.
func (r *Reading) places(visit func(*Place)) {
	for _, effects := range [][]Effect{r.Effects, r.Open, r.Associations} {
		for i := range effects {
			visit(&effects[i].What)
			visit(&effects[i].By)
		}
	}
	for i := range r.Notes {
		visit(&r.Notes[i].Place)
	}
	for i := range r.Carriers {
		visit(&r.Carriers[i].Place)
	}
	for i := range r.Subnets {
		visit(&r.Subnets[i])
	}
}

// Warn adds protections without effect to the reading of a plan: only the configuration shows them.
func (r *Reading) Warn(s *Source) {
	for _, e := range s.Reading().Effects {
		if e.Verb == Useless {
			r.Effects = append(r.Effects, e)
		}
	}
}

// Empty reports whether there is no configuration at all.
func (s *Source) Empty() bool { return s.files == 0 }

// refers returns the first resource of a kind that an expression refers to, also through locals,
// variables and outputs of modules.
func (m *sourceModule) refers(expr hclsyntax.Expression, kind string) *sourceResource {
	return m.follow(expr, kind, map[followed]bool{})
}

// followed is a visited expression of a module; each is visited once.
type followed struct {
	module *sourceModule
	expr   hclsyntax.Expression
}

func (m *sourceModule) follow(expr hclsyntax.Expression, kind string,
	seen map[followed]bool) *sourceResource {
	if expr == nil || seen[followed{m, expr}] {
		return nil
	}
	seen[followed{m, expr}] = true
	for _, t := range expr.Variables() {
		if len(t) < 2 {
			continue
		}
		root := t.RootName()
		if step, is := t[1].(hcl.TraverseAttr); is && root == "data" && len(t) > 2 {
			root, t = "data."+step.Name, t[1:]
		}
		name, ok := t[1].(hcl.TraverseAttr)
		if !ok {
			continue
		}
		var found *sourceResource
		switch root {
		case kind:
			i := slices.IndexFunc(m.resources, func(r *sourceResource) bool {
				return r.kind == kind && r.name == name.Name
			})
			if i >= 0 {
				found = m.resources[i]
			}
		case "local":
			found = m.follow(m.locals[name.Name], kind, seen)
		case "var":
			if caller, call := m.caller(); call != nil && call.Body.Attributes[name.Name] != nil {
				found = caller.follow(call.Body.Attributes[name.Name].Expr, kind, seen)
			}
		case "module":
			called := m.whole.called(strings.TrimPrefix(m.way+".module."+name.Name, "."))
			for _, step := range t[2:] { // a key of count or for_each may come before the output
				if output, is := step.(hcl.TraverseAttr); is && called != nil {
					found = called.follow(called.outputs[output.Name], kind, seen)
					break
				}
			}
		}
		if found != nil {
			return found
		}
	}
	return nil
}

// called returns the module at the end of a chain of calls from the root, nil if its code was not
// found.
func (s *Source) called(way string) *sourceModule {
	for _, m := range s.modules {
		if m.way == way {
			return m
		}
	}
	return nil
}

// caller returns the module that calls this one, and the call; nil for the root.
func (m *sourceModule) caller() (*sourceModule, *hclsyntax.Block) {
	at := strings.LastIndex("."+m.way, ".module.")
	if m.way == "" || at < 0 {
		return nil, nil
	}
	caller := m.whole.called(m.way[:max(0, at-1)])
	if caller == nil {
		return nil, nil
	}
	for _, call := range caller.calls {
		if call.Labels[0] == m.way[at+len("module."):] {
			return caller, call
		}
	}
	return nil, nil
}
