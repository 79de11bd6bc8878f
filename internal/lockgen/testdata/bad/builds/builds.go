// Package builds has a method in fewer builds than its type.
package builds

type Stock struct{}
