// Package readme holds the README's snippets where the compiler and the tests see them.
package readme
