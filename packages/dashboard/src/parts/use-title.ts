/** Sets the page title for the browser's tab and history. */
import { useEffect } from "preact/hooks";

export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Sandkasten`;
    return () => {
      document.title = "Sandkasten";
    };
  }, [title]);
}
