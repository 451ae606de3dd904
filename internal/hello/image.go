package hello

import "regexp"

// repository holds the released images.
const repository = "routekeeper.dev/routekeeper"

var released = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

// ImageOf is the image for a version of this program: the same version, or the newest for a build
// that is not a release.
func ImageOf(version string) string {
	if released.MatchString(version) {
		return repository + ":" + version
	}
	return repository + ":latest"
}
