import { useState } from "preact/hooks";
import { Problem } from "../api/http";
import { toast } from "../ui/toast";

/** One thing at a time: which of them is being done, and what went wrong is said. */
export function useActing(): {
  acting: string | null;
  act: (name: string, work: () => Promise<void>) => void;
} {
  const [acting, setActing] = useState<string | null>(null);
  const act = (name: string, work: () => Promise<void>) => {
    if (acting !== null) return;
    setActing(name);
    work()
      .catch((trouble: unknown) => {
        if (!(trouble instanceof Problem)) throw trouble;
        toast(trouble.detail, "bad");
      })
      .finally(() => setActing(null));
  };
  return { acting, act };
}
