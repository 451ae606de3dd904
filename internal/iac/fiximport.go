package iac

import (
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"
)

// imports writes an import block at the end of the file with the resource, or with the call of its
// module. Terraform accepts such blocks only in the root module, since 1.5.
func (x *fixer) imports(r Repair) string {
	name := x.rootFile(r.Address)
	if name == "" || !isAddress(r.Address) {
		return "the code of " + r.Address + " was not found"
	}
	for other := range x.source.modules[0].files {
		if f := x.file(other); f != nil && importsInto(f.Body(), r.Address) {
			return ""
		}
	}
	f := x.file(name)
	f.Body().AppendNewline()
	block := f.Body().AppendNewBlock("import", nil)
	setAttribute(block.Body(), Setting{"to", r.Address})
	setAttribute(block.Body(), Setting{"id", quoteHCL(r.Import)})
	return ""
}

// rootFile returns the file of the root module that has the resource or the call of its module; ""
// if neither was found.
func (x *fixer) rootFile(address string) string {
	if len(x.source.modules) == 0 {
		return ""
	}
	names := modulesOf(moduleOf(address))
	if len(names) == 0 {
		place, _ := x.source.find(address)
		return place.File
	}
	for _, call := range x.source.modules[0].calls {
		if call.Labels[0] == names[0] {
			return call.TypeRange.Filename
		}
	}
	return ""
}

// importsInto reports whether an import block for an address exists.
func importsInto(body *hclwrite.Body, address string) bool {
	for _, b := range body.Blocks() {
		if to := b.Body().GetAttribute("to"); b.Type() == "import" && to != nil &&
			strings.TrimSpace(string(to.Expr().BuildTokens(nil).Bytes())) == address {
			return true
		}
	}
	return false
}
