package finding

// permissions are the codes of permissions and locks.
var permissions = []Description{}
