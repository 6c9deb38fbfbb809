import type { PageProps } from "../app";
import { t } from "../strings";

export default function OpsPage(_: PageProps) {
  return <section class="page">{t.brand}</section>;
}
