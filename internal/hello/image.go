package hello

import "regexp"

// repository is where released images are.
const repository = "routekeeper.dev/routekeeper"

var released = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

// ImageOf is the image of a version of this program: its own, or the newest where it is no release.
func ImageOf(version string) string {
	if released.MatchString(version) {
		return repository + ":" + version
	}
	return repository + ":latest"
}
