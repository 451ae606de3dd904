package main

import (
	"fmt"
	"regexp"
	"strings"
)

// addresses are where a release is published. All of them are derived from the GitHub repository
// that publishes it, and no other file of this project names one. So a fork publishes to its own
// addresses.
type addresses struct{ repository string }

var repositoryName = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[\w.-]+$`)

func addressesOf(repository string) (addresses, error) {
	if repository != "" && !repositoryName.MatchString(repository) {
		return addresses{}, fmt.Errorf("--repository: %q is not OWNER/NAME", repository)
	}
	return addresses{repository}, nil
}

// known reports whether the release is published anywhere.
func (a addresses) known() bool { return a.repository != "" }

func (a addresses) home() string { return "https://github.com/" + a.repository }

// file returns where a file of a release can be downloaded.
func (a addresses) file(tag, name string) string {
	return a.home() + "/releases/download/" + tag + "/" + name
}

// image returns the repository of a program's images.
func (a addresses) image(of program) string {
	if !a.known() {
		return ""
	}
	suffix := strings.TrimPrefix(of.name, mainProgram.name)
	return "ghcr.io/" + strings.ToLower(a.repository) + suffix
}

// charts returns the parent of the repository of charts.
func (a addresses) charts() string { return a.image(mainProgram) + "/charts" }
